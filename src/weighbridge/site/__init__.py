"""The static site: the same Python in a browser, under Pyodide, so that no file leaves a machine.

`archive` packs the package for the browser, `build` writes the folder. The pages' script is built
from `web/`; requests of the page are answered by `weighbridge.desk`.
"""
