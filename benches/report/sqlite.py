"""Inserts the rows of an exported database into a new one, with the same tables and full-text index, and prints the seconds."""

import sqlite3
import sys
import time

exported, path = sys.argv[1:]
source = sqlite3.connect(exported)
target = sqlite3.connect(path, isolation_level=None)
# As the export: nobody reads the file before it is complete.
for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -16384"):
    target.execute(f"PRAGMA {pragma}")
for name, sql in source.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"):
    if sql and (name == "lines_text" or not name.startswith("lines_text_")):
        target.execute(sql)
target.execute("BEGIN")
seconds = 0.0
for table in ("runs", "events", "texts", "turns"):
    rows = source.execute(f"SELECT * FROM {table}")
    insert = f"INSERT INTO {table} VALUES ({', '.join('?' for _ in rows.description)})"
    while batch := rows.fetchmany(20_000):
        # Reading the rows does not count.
        began = time.perf_counter()
        target.executemany(insert, batch)
        if table == "texts":
            words = "INSERT INTO lines_text (rowid, text) VALUES (?, ?)"
            target.executemany(words, ((row[0], row[3]) for row in batch))
        seconds += time.perf_counter() - began
began = time.perf_counter()
target.execute("COMMIT")
target.close()
print(seconds + time.perf_counter() - began)
