//! Models: requests, streamed answers, and the clients that connect to a model.

mod cancel;
mod error;
mod request;
mod response;

mod reader;
mod response_builder;

mod command;
#[cfg(feature = "http")]
mod http;
mod recorded;

use crossbeam_channel::{Sender, bounded};

pub use cancel::Cancel;
pub use command::CommandClient;
pub use error::LlmError;
#[cfg(feature = "http")]
pub(crate) use http::SECRET_LOG_TARGETS;
#[cfg(feature = "http")]
pub use http::{Api, HttpClient, Secret};
pub use recorded::RecordedClient;
pub use request::{ContentBlock, Message, Request, Role, ToolSpec};
pub use response::{BrokenInput, Response, StopReason, StreamChunk, ToolCall, Usage};

/// Capacity of the channel between a model and its receiver, in chunks. The model waits while it is
/// full. It holds about one second of a fast model's tokens.
pub(super) const CHUNKS: usize = 100;

/// A client of a model.
///
/// ```
/// use crossbeam_channel::Sender;
/// use td_observe::agent_loop::{Cancel, LlmClient, LlmError, Request, Response, StreamChunk};
///
/// struct Echo;
///
/// impl LlmClient for Echo {
///     fn stream(
///         &mut self,
///         request: &Request,
///         chunks: &Sender<StreamChunk>,
///         _cancel: &Cancel,
///     ) -> Result<Response, LlmError> {
///         let response = Response::text(request.text());
///         // An error means that the receiver is dropped.
///         let _ = chunks.send(StreamChunk::TextDelta(response.text.clone()));
///         Ok(response)
///     }
/// }
///
/// let response = Echo.complete(&Request::prompt("hello"), &Cancel::new()).unwrap();
/// assert_eq!(response.text, "hello");
/// ```
pub trait LlmClient: Send {
    /// Sends a request and waits for the complete answer.
    ///
    /// # Errors
    /// As [`LlmClient::stream`].
    fn complete(&mut self, request: &Request, cancel: &Cancel) -> Result<Response, LlmError> {
        // Without a receiver, sending a chunk fails at once instead of waiting.
        let (chunks, _) = bounded(0);
        self.stream(request, &chunks, cancel)
    }

    /// Sends a request, streams the answer in chunks, and returns the complete answer.
    ///
    /// The client waits while the channel is full, and ignores a dropped receiver. After a
    /// cancellation, it returns within 200 ms.
    ///
    /// # Errors
    /// When the answer is missing or incomplete; [`LlmError::partial`] returns the partial text.
    fn stream(
        &mut self,
        request: &Request,
        chunks: &Sender<StreamChunk>,
        cancel: &Cancel,
    ) -> Result<Response, LlmError>;
}

impl<C: LlmClient + ?Sized> LlmClient for Box<C> {
    fn stream(
        &mut self,
        request: &Request,
        chunks: &Sender<StreamChunk>,
        cancel: &Cancel,
    ) -> Result<Response, LlmError> {
        (**self).stream(request, chunks, cancel)
    }
}
