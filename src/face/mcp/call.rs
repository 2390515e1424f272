//! The calls of tools that run: one thread for each, until it has answered or is cancelled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Map, Value};

use super::context::Context;
use super::message::{INVALID_REQUEST, Problem, response};
use super::protocol::Era;
use super::refusal::Refusal;
use super::result::ToolResult;
use super::server::McpServer;
use super::streams::Output;
use super::tools::Tool;
use super::{arguments, history, panes, send, send_and_wait, wait};
use crate::thread::{Handle, Stop, StopGuard, lock, spawn, stop_pair};

/// The most calls at once. Fifty waits are common for who supervises as many panes.
const CALLS_MAX: usize = 100;

/// A call of a tool.
pub(super) struct Call {
    pub id: Value,
    pub era: Era,
    pub tool: Tool,
    pub arguments: Map<String, Value>,
    /// The client wants to hear of progress, under this token.
    pub progress_token: Option<Value>,
}

/// A call that runs.
struct Running {
    /// Tells it apart from an earlier call with its id, which may not have ended yet.
    number: u64,
    #[expect(dead_code, reason = "dropping it cancels the call")]
    stop: StopGuard,
    waits: bool,
}

/// The calls that run, by the texts of their ids.
type Table = Arc<Mutex<HashMap<String, Running>>>;

/// All calls.
pub(super) struct Calls {
    server: Arc<McpServer>,
    output: Output,
    running: Table,
    threads: Vec<Handle<()>>,
    /// The number of calls so far.
    count: u64,
}

impl Calls {
    pub fn new(server: Arc<McpServer>, output: Output) -> Self {
        Self {
            server,
            output,
            running: Table::default(),
            threads: Vec::new(),
            count: 0,
        }
    }

    /// Begins a call, which answers by itself.
    ///
    /// # Errors
    /// The answer, if there are too many calls, or if one with the same id runs.
    pub fn begin(&mut self, call: Call) -> Result<(), Problem> {
        self.reap();
        self.count += 1;
        let number = self.count;
        let key = call.id.to_string();
        let (guard, stop) = stop_pair();
        {
            let mut running = lock(&self.running);
            if running.len() >= CALLS_MAX {
                let why = format!("{CALLS_MAX} calls run: cancel one, or wait until one has ended");
                return Err(Problem::new(INVALID_REQUEST, why));
            }
            if running.contains_key(&key) {
                let why = "a request with this id runs already";
                return Err(Problem::new(INVALID_REQUEST, why));
            }
            let waits = matches!(call.tool, Tool::WaitFor | Tool::SendAndWait);
            let call = Running {
                number,
                stop: guard,
                waits,
            };
            running.insert(key.clone(), call);
        }
        let (server, output) = (Arc::clone(&self.server), self.output.clone());
        let running = Arc::clone(&self.running);
        let id = call.id.clone();
        let ended_key = key.clone();
        let thread = spawn("td-mcp-call", move || {
            // Taken out of the table at the end, also after a panic.
            let _entry = Entry {
                running,
                key,
                number,
            };
            answer(&server, &output, &call, &stop);
        });
        match thread {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                lock(&self.running).remove(&ended_key);
                log::error!("{error:?}");
                let why = format!("the call {id} cannot be run: {error}");
                Err(Problem::new(INVALID_REQUEST, why))
            }
        }
    }

    /// Cancels the call with an id, which then does not answer.
    pub fn cancel_call(&self, id: &Value) {
        drop(lock(&self.running).remove(&id.to_string()));
    }

    /// Cancels all calls that wait.
    pub fn cancel_waits(&self) {
        lock(&self.running).retain(|_, call| !call.waits);
    }

    /// Cancels all calls.
    pub fn cancel(&self) {
        lock(&self.running).clear();
    }

    /// Waits until all calls have ended, at most until the deadline.
    pub fn finish(&mut self, deadline: Instant) {
        let threads = std::mem::take(&mut self.threads);
        for thread in threads {
            match thread.join_deadline(deadline) {
                Ok(Ok(())) => {}
                Ok(Err(panicked)) => log::error!("{panicked}"),
                Err(unfinished) => self.threads.push(unfinished),
            }
        }
    }

    fn reap(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        let (ended, running): (Vec<_>, Vec<_>) = threads.into_iter().partition(Handle::is_finished);
        self.threads = running;
        ended.into_iter().for_each(Handle::join_logged);
    }
}

/// The entry of a call in the table.
struct Entry {
    running: Table,
    key: String,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        if running
            .get(&self.key)
            .is_some_and(|call| call.number == self.number)
        {
            running.remove(&self.key);
        }
    }
}

/// Runs a call, and answers unless it was cancelled.
fn answer(server: &McpServer, output: &Output, call: &Call, stop: &Stop) {
    let context = Context::new(server, (output, call.progress_token.as_ref()), stop);
    let result = run(&context, call)
        .unwrap_or_else(|refusal| ToolResult::refused(refusal, call.tool.types()));
    if context.is_cancelled() {
        return;
    }
    let result = call.era.result(result.result());
    output.send(response(&call.id, result), stop);
}

fn run(context: &Context<'_>, call: &Call) -> Result<ToolResult, Refusal> {
    let arguments = call.arguments.clone();
    match call.tool {
        Tool::ListPanes => panes::list(context, arguments::read(arguments)?),
        Tool::ReadOutput => history::read_output(context, arguments::read(arguments)?),
        Tool::SearchHistory => history::search_history(context, arguments::read(arguments)?),
        Tool::WaitFor => wait::wait_for(context, arguments::read(arguments)?),
        Tool::SendInput => send::send_input(context, arguments::read(arguments)?),
        Tool::SendAndWait => send_and_wait::send_and_wait(context, arguments::read(arguments)?),
    }
}
