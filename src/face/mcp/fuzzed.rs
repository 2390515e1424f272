//! The lines of an MCP client as functions of bytes, for the fuzz target.

use serde_json::Value;

use super::arguments::{
    self, ListPanes, ReadOutput, SearchHistory, SendAndWait, SendInput, WaitFor,
};
use super::call::Call;
use super::message::{Incoming, parse, response};
use super::session::{Asked, asked};
use super::tools::Tool;

/// Returns the answer to a line, if it is answered at once. The arguments of a call are read.
pub(crate) fn answer(line: &[u8]) -> Option<Value> {
    match parse(line)? {
        Incoming::Invalid(answer) => Some(answer),
        Incoming::Response | Incoming::Notification { .. } => None,
        Incoming::Request(request) => {
            let id = request.id.clone();
            match asked(request, false) {
                Ok(Asked::Now(result)) => Some(response(&id, result)),
                Ok(Asked::Call(call)) => {
                    read(call);
                    None
                }
                Err(problem) => Some(problem.response(&id)),
            }
        }
    }
}

fn read(call: Call) {
    let arguments = call.arguments;
    match call.tool {
        Tool::ListPanes => drop(arguments::read::<ListPanes>(arguments)),
        Tool::ReadOutput => drop(arguments::read::<ReadOutput>(arguments)),
        Tool::SearchHistory => drop(arguments::read::<SearchHistory>(arguments)),
        Tool::WaitFor => drop(arguments::read::<WaitFor>(arguments)),
        Tool::SendInput => drop(arguments::read::<SendInput>(arguments)),
        Tool::SendAndWait => drop(arguments::read::<SendAndWait>(arguments)),
    }
}
