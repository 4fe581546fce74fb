// The page's side of the worker: requests with a time limit, and another worker where one has died.

export type Answer = Record<string, any> & { status?: number; out?: string; err?: string; html?: string; failed?: string };
export type Files = { name: string; data: Blob }[];
export type Text = { name: string; content: string };
export type Reply = { answer: Answer; ms: number; read: { bytes: number; calls: number } };
export type Event = "starting" | "ready" | "died" | "slow" | "unstartable";

export class Died extends Error {
  constructor(readonly why: Event, reason: string) {
    super(reason);
  }
}

const START_LIMIT_MS = 90_000;
const ANSWER_LIMIT_MS = 60_000;

export class Desk {
  restarts = 0;
  private worker!: Worker;
  private last = 0;
  private waiting = new Map<number, { resolve(reply: Reply): void; reject(error: Error): void; timer: number }>();
  private started!: Promise<number>;

  constructor(private readonly says: (event: Event, ms: number) => void) {
    this.start();
  }

  private start(): void {
    this.says("starting", 0);
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.worker = worker;
    this.started = new Promise((resolve, reject) => {
      const timer = setTimeout(() => fail("the time limit"), START_LIMIT_MS);
      const fail = (reason: string) => {
        clearTimeout(timer);
        worker.terminate();
        this.says("unstartable", 0);
        reject(new Died("unstartable", reason));
      };
      worker.onerror = (event) => fail(event.message ?? "the script of the worker");
      worker.onmessage = ({ data }) => {
        if (data.ready !== undefined) {
          clearTimeout(timer);
          this.says("ready", data.ready);
          resolve(data.ready);
        } else if (data.id === undefined) fail(data.dead);
        else if (data.dead !== undefined) this.replace("died", data.dead);
        else this.settle(data.id)?.resolve({ ...data, answer: JSON.parse(data.answer) });
      };
    });
    this.started.catch(() => undefined);
  }

  private settle(id: number) {
    const one = this.waiting.get(id);
    if (one) clearTimeout(one.timer);
    this.waiting.delete(id);
    return one;
  }

  // A worker that died or does not answer is ended; what waits for it is told so, and another one starts.
  private replace(why: Event, reason: string): void {
    this.worker.terminate();
    const waiting = [...this.waiting.keys()].map((id) => this.settle(id));
    this.restarts += 1;
    this.says(why, 0);
    this.start();
    for (const one of waiting) one?.reject(new Died(why, reason));
  }

  async ask(request: Record<string, unknown>, files: Files = [], text: Text | null = null): Promise<Reply> {
    await this.started;
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => this.replace("slow", `${ANSWER_LIMIT_MS / 1000} s`), ANSWER_LIMIT_MS);
      this.waiting.set(id, { resolve, reject, timer });
      this.worker.postMessage({ id, request: JSON.stringify(request), files, text });
    });
  }
}
