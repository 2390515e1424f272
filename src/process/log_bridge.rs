//! What code logs through the `log` crate, as events: `003…`'s `ctx.log`.

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::error::{Error, Result};
use crate::event::TdEvent;

/// What this library logs is about events: made into events it would go round in circles.
const OURS: &str = env!("CARGO_CRATE_NAME");

/// A logger whose records are `ExecutionOutput` events on `stderr`, a line each: `WARN target:
/// message`. It never waits; where there is no room, records are dropped and counted.
///
/// ```
/// use td_observe::{EventBus, process::LogBridge};
///
/// let bus = EventBus::new(10_000);
/// let mut events = bus.subscribe();
/// LogBridge::new(bus.emitter_for("analysis"), log::LevelFilter::Info).install().unwrap();
/// log::info!("half of it is done");
/// bus.close();
/// assert_eq!(events.iter().count(), 1);
/// ```
pub struct LogBridge {
    emitter: EventEmitter,
    level: LevelFilter,
    next: Option<Box<dyn Log>>,
}

impl LogBridge {
    /// RecordSplitter up to this level become events.
    pub fn new(emitter: EventEmitter, level: LevelFilter) -> Self {
        Self {
            emitter,
            level,
            next: None,
        }
    }

    /// Hands all records on to another logger as well, as `env_logger`.
    #[must_use = "it is not installed yet"]
    pub fn and_to(mut self, next: impl Log + 'static) -> Self {
        self.next = Some(Box::new(next));
        self
    }

    /// Makes it the program's logger. Another logger's level is up to `log::set_max_level`, which
    /// this raises where it is lower than its own.
    ///
    /// # Errors
    /// When the program has a logger already.
    pub fn install(self) -> Result<()> {
        let level = self.level.max(log::max_level());
        log::set_boxed_logger(Box::new(self))
            .map_err(|cause| Error::other("the program has a logger").because(cause))?;
        log::set_max_level(level);
        Ok(())
    }

    fn takes(&self, level: Level, target: &str) -> bool {
        let is_ours = target == OURS
            || target
                .strip_prefix(OURS)
                .is_some_and(|rest| rest.starts_with("::"));
        level <= self.level && !is_ours
    }
}

impl Log for LogBridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.takes(metadata.level(), metadata.target())
            || self
                .next
                .as_ref()
                .is_some_and(|next| next.enabled(metadata))
    }

    fn log(&self, record: &Record<'_>) {
        if self.takes(record.level(), record.target()) {
            let text = format!(
                "{} {}: {}\n",
                record.level(),
                record.target(),
                record.args()
            );
            self.emitter.emit(TdEvent::ExecutionOutput {
                execution_id: self.emitter.execution_id().clone(),
                stream: OutputStream::Stderr.name().to_owned(),
                text,
            });
        }
        if let Some(next) = &self.next {
            next.log(record);
        }
    }

    fn flush(&self) {
        if let Some(next) = &self.next {
            next.flush();
        }
    }
}

impl std::fmt::Debug for LogBridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogBridge")
            .field("emitter", &self.emitter)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}
