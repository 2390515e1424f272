//! Models and tools of the loop, from outside: commands, recordings, and a local server.

mod command;
#[cfg(feature = "http")]
mod http;
mod recorded;
#[cfg(feature = "http")]
mod server;
mod turns;

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use td_observe::agent::AgentEvent;
use td_observe::agent_loop::{Cancel, LlmClient, LlmError, Request, Response, StreamChunk};

use crate::support::CEILING;

/// The longest time that a cancel may take: the promise is 200 ms, the rest allows for a busy machine.
const PROMPT: Duration = Duration::from_millis(1_000);

/// Completes a request; returns the answer and all chunks.
#[track_caller]
fn streamed(
    client: &mut dyn LlmClient,
    request: &Request,
) -> (Result<Response, LlmError>, Vec<StreamChunk>) {
    let (give, take) = bounded(100);
    thread::scope(|scope| {
        let chunks = scope.spawn(move || take.iter().collect());
        let answer = client.stream(request, &give, &Cancel::new());
        drop(give);
        (answer, chunks.join().unwrap())
    })
}

/// A request that another thread completes, so that the test can act meanwhile.
struct Asking {
    chunks: Receiver<StreamChunk>,
    answer: Receiver<(Result<Response, LlmError>, Instant)>,
    cancel: Cancel,
}

impl Asking {
    fn begin(mut client: impl LlmClient + 'static, request: Request) -> Self {
        let (give, chunks) = bounded(100);
        let (answered, answer) = bounded(1);
        let cancel = Cancel::new();
        let other = cancel.clone();
        thread::spawn(move || {
            let answer = client.stream(&request, &give, &other);
            answered.send((answer, Instant::now())).unwrap();
        });
        Self {
            chunks,
            answer,
            cancel,
        }
    }

    #[track_caller]
    fn next(&self) -> StreamChunk {
        self.chunks.recv_timeout(CEILING).unwrap()
    }

    #[track_caller]
    fn text(&self) -> String {
        match self.next() {
            StreamChunk::TextDelta(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    #[track_caller]
    fn end(&self) -> Result<Response, LlmError> {
        self.answer.recv_timeout(CEILING).unwrap().0
    }

    /// Cancels the request; returns its error, and checks that it ended in time.
    #[track_caller]
    fn cancelled(&self) -> LlmError {
        let began = Instant::now();
        self.cancel.cancel();
        let (answer, ended) = self.answer.recv_timeout(CEILING).unwrap();
        let error = answer.unwrap_err();
        assert!(error.is_cancelled(), "{error:?}");
        let took = ended - began;
        eprintln!("cancelled within {took:?}");
        assert!(took < PROMPT, "it took {took:?}");
        error
    }
}

fn text_of(chunks: &[StreamChunk]) -> String {
    let texts = chunks.iter().filter_map(|chunk| match chunk {
        StreamChunk::TextDelta(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn warnings_of(chunks: &[StreamChunk]) -> Vec<&str> {
    let warnings = chunks.iter().filter_map(|chunk| match chunk {
        StreamChunk::Agent(AgentEvent::Warning { message, .. }) => Some(message.as_str()),
        _ => None,
    });
    warnings.collect()
}
