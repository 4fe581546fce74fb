"""Scans many checkpoints: a row each, in Parquet, on one machine or on Spark."""
