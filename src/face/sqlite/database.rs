//! The database of an export: its file, its tables, and how SQLite writes it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Result};

/// The version of the tables, as `PRAGMA user_version` tells it.
const SCHEMA_VERSION: i32 = 1;

/// Marks the file as one of this program, for `file` and others: "TDob".
const APPLICATION_ID: i32 = 0x5444_6f62;

/// How SQLite writes a new file that has no readers yet, and is thrown away if it is not completed: without a journal, and
/// without waiting for the disk. The memory for pages is bounded: rows are appended, so few pages are touched again.
const PRAGMAS: &str = "
    PRAGMA page_size = 4096;
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
";

/// The settings of the index while it is built. The terms are collected in 8 MiB, which stay in the processor's cache, and
/// what is written is not merged: a gigabyte of lines has some hundred segments, which a search reads in milliseconds.
const INDEX: &str = "
    INSERT INTO lines_text(lines_text, rank) VALUES ('hashsize', 8388608);
    INSERT INTO lines_text(lines_text, rank) VALUES ('automerge', 0);
    INSERT INTO lines_text(lines_text, rank) VALUES ('crisismerge', 1999);
";

/// A database that is being written.
#[derive(Debug)]
pub(crate) struct Database {
    pub(super) connection: Connection,
}

impl Database {
    /// Creates the tables in an empty file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        // Only one thread uses the connection at a time.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.execute_batch(PRAGMAS)?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        connection.execute_batch("BEGIN")?;
        connection.execute_batch(include_str!("schema.sql"))?;
        connection.execute_batch(INDEX)?;
        Ok(Self { connection })
    }

    /// Writes the rest, and closes the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<()> {
        self.connection.execute_batch("COMMIT")?;
        self.connection.close().map_err(|(_, error)| error)
    }
}
