//! Errors of receiving from a lane, separated as in `crossbeam-channel`.

/// The error of [`Subscription::recv`](crate::Subscription::recv): the bus is closed and all
/// events have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event bus is closed")]
pub struct RecvError;

/// The error of [`Subscription::try_recv`](crate::Subscription::try_recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryRecvError {
    /// No event is ready yet.
    #[error("no event is ready")]
    Empty,
    /// The bus is closed and all events have been read.
    #[error("the event bus is closed")]
    Closed,
}

/// The error of receiving with a timeout or a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvTimeoutError {
    /// No event arrived in time.
    #[error("no event arrived in time")]
    Timeout,
    /// The bus is closed and all events have been read.
    #[error("the event bus is closed")]
    Closed,
}
