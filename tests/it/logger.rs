//! The test binary's only logger: it passes records to the hooks of tests.

use std::cell::Cell;
use std::sync::{Arc, Mutex, Once};

use log::{LevelFilter, Log, Metadata, Record};

type Hook = Arc<dyn Fn(&Record<'_>) + Send + Sync>;

static HOOKS: Mutex<Vec<Hook>> = Mutex::new(Vec::new());

/// Targets of the HTTP library that record requests byte for byte; an application must disable them.
const SECRET_TARGETS: [&str; 2] = ["ureq::util", "ureq_proto::util"];

thread_local! {
    /// True if the logger accepts [`SECRET_TARGETS`] on this thread.
    pub static RECORDS_SECRETS: Cell<bool> = const { Cell::new(false) };
}

struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        RECORDS_SECRETS.get() || !SECRET_TARGETS.contains(&metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // A hook may panic, which must not poison the lock.
            let hooks = HOOKS.lock().unwrap().clone();
            hooks.iter().for_each(|hook| hook(record));
        }
    }

    fn flush(&self) {}
}

/// Calls `hook` with each record of all tests from now on, on the thread that logs.
pub fn add_hook(hook: impl Fn(&Record<'_>) + Send + Sync + 'static) {
    static INSTALL: Once = Once::new();
    HOOKS.lock().unwrap().push(Arc::new(hook));
    INSTALL.call_once(|| {
        log::set_boxed_logger(Box::new(Logger)).unwrap();
        log::set_max_level(LevelFilter::Trace);
    });
}

/// Panics `count` times when a poller opens this pane of a session, in the middle of its work.
/// The session's name must be unique among all tests.
pub fn panic_at_opening(session: &str, pane: &str, count: usize) {
    let opening = format!("{session}: observes pane {pane}");
    let left = Mutex::new(count);
    add_hook(move |record| {
        if record.args().to_string() != opening {
            return;
        }
        let mut left = left.lock().unwrap();
        if let Some(fewer) = left.checked_sub(1) {
            *left = fewer;
            drop(left);
            panic!("on purpose");
        }
    });
}
