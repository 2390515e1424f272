//! Models: what they are asked, what they answer piece by piece, and the ways to reach one.

mod cancel;
mod error;
mod request;
mod response;

mod intake;
mod reader;

mod command;
#[cfg(feature = "http")]
mod http;
mod recorded;

use crossbeam_channel::{Sender, bounded};

pub use cancel::Cancel;
pub use command::CommandClient;
pub use error::LlmError;
#[cfg(feature = "http")]
pub use http::{Api, HttpClient, Secret};
pub use recorded::RecordedClient;
pub use request::{Block, Message, Request, Role, ToolSpec};
pub use response::{BrokenInput, Response, StopReason, StreamChunk, ToolCall, Usage};

/// Chunks that may wait between a model and who shows them; then the model waits. As in `001…`:
/// about a second of a fast model's tokens.
pub const CHUNKS: usize = 100;

/// A model that can be asked.
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
///         // Whoever does not listen is not told.
///         let _ = chunks.send(StreamChunk::TextDelta(response.text.clone()));
///         Ok(response)
///     }
/// }
///
/// let response = Echo.complete(&Request::prompt("hello"), &Cancel::new()).unwrap();
/// assert_eq!(response.text, "hello");
/// ```
pub trait LlmClient: Send {
    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// As for [`LlmClient::stream`].
    fn complete(&mut self, request: &Request, cancel: &Cancel) -> Result<Response, LlmError> {
        // Nobody holds the other end: each chunk finds that out, and nothing waits.
        let (nobody, _) = bounded(0);
        self.stream(request, &nobody, cancel)
    }

    /// Asks, and hands on the answer piece by piece as it comes; all of it comes again as the
    /// result.
    ///
    /// Where the channel is full this waits; a receiver that is gone is no error. Cancelled, it
    /// returns within 200 ms, whatever it waits for.
    ///
    /// # Errors
    /// When there is no answer, or not a whole one: [`LlmError::partial`] has what had come.
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
