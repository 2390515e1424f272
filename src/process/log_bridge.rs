//! Records of the `log` crate as events of an execution.

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::error::{Error, Result};
use crate::event::TdEvent;

/// This library's own records are not emitted, because they are about events and would cause further events
/// endlessly.
const OWN_TARGET: &str = env!("CARGO_CRATE_NAME");

/// A logger that emits records as `ExecutionOutput` events on `stderr`, one line each: `WARN target:
/// message`. Never blocks; records that do not fit are dropped and counted.
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
    /// Creates a logger that emits records up to `level`.
    pub fn new(emitter: EventEmitter, level: LevelFilter) -> Self {
        Self {
            emitter,
            level,
            next: None,
        }
    }

    /// Also passes all records to another logger, for example `env_logger`.
    #[must_use = "the logger is not installed yet"]
    pub fn and_to(mut self, next: impl Log + 'static) -> Self {
        self.next = Some(Box::new(next));
        self
    }

    /// Installs this as the program's logger, and raises `log::max_level` to its level. Use
    /// `log::set_max_level` to set the level of another logger.
    ///
    /// # Errors
    /// When the program already has a logger.
    pub fn install(self) -> Result<()> {
        let level = self.level.max(log::max_level());
        log::set_boxed_logger(Box::new(self))
            .map_err(|cause| Error::other("the program already has a logger").because(cause))?;
        log::set_max_level(level);
        Ok(())
    }

    fn accepts(&self, level: Level, target: &str) -> bool {
        let rest = target.strip_prefix(OWN_TARGET);
        let is_own = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        level <= self.level && !is_own
    }
}

impl Log for LogBridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let next = self.next.as_ref();
        self.accepts(metadata.level(), metadata.target())
            || next.is_some_and(|next| next.enabled(metadata))
    }

    fn log(&self, record: &Record<'_>) {
        if self.accepts(record.level(), record.target()) {
            let text = format!(
                "{} {}: {}\n",
                record.level(),
                record.target(),
                record.args()
            );
            self.emitter.emit(TdEvent::ExecutionOutput {
                execution_id: self.emitter.execution_id().clone(),
                stream: OutputStream::Stderr.into(),
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
