//! Reads the output of panes, and searches the histories.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::arguments::{ReadOutput, SearchHistory};
use super::context::Context;
use super::cursor::{Cursors, SearchCursor};
use super::read::{self, ReadRequest};
use super::refusal::Refusal;
use super::result::{Budget, ToolResult};
use super::search::{self, SearchRequest, parse_since};
use crate::api::Observer;
use crate::board::Row;
use crate::error::Error;
use crate::face::find_row::find_row;
use crate::face::sanitize::{one_line, sanitized};
use crate::feed::ended_rows;

impl Context<'_> {
    /// Finds the rows whose history a client names: on the board, or of a run that has ended.
    pub fn find_history(&self, observer: &Observer, name: &str) -> Result<Vec<Row>, Refusal> {
        if let Ok(found) = self.find_within(observer, name, Duration::ZERO)
            && !found.rows.is_empty()
        {
            return Ok(found.rows);
        }
        let (data, clock) = (&self.server.data, self.clock());
        if let Some(row) = find_row((&self.server.find, clock), data, name) {
            return Ok(vec![row]);
        }
        let run = data
            .named_run(name)
            .and_then(|run| run.summary(clock.wall()));
        match run {
            Ok(Some(run)) => Ok(ended_rows(&run)),
            // It may have just been made.
            _ => Ok(self.find(observer, name)?.rows),
        }
    }

    fn one_history(&self, observer: &Observer, name: &str) -> Result<Row, Refusal> {
        let mut rows = self.find_history(observer, name)?;
        match rows.pop() {
            Some(row) if rows.is_empty() => Ok(row),
            Some(last) => {
                drop(last);
                Err(Refusal::of_arguments(
                    format!("{name:?} has {} panes", rows.len() + 1),
                    "give the id of one of them, as list_panes shows them for this pane",
                ))
            }
            None => Err(Refusal::of_arguments(
                format!("{name:?} has printed nothing"),
                "list_panes shows what there is",
            )),
        }
    }
}

/// Reads the output of a row, or its screen.
pub(super) fn read_output(
    context: &Context<'_>,
    arguments: ReadOutput,
) -> Result<ToolResult, Refusal> {
    let cursors = arguments.cursor.as_deref().map(str::parse::<Cursors>);
    let cursors = cursors.transpose().map_err(|error| refused(&error))?;
    let cursors = cursors.unwrap_or_default();
    let observer = context.observer()?;
    if arguments.screen {
        return screen(context, &observer, &arguments);
    }
    let row = context.one_history(&observer, &arguments.pane)?;
    let cursor = cursors
        .of_run(&row.execution_id)
        .or_else(|| cursors.first());
    let is_over = || context.is_cancelled();
    let read = Budget::new(arguments.limit.is_some()).fit(|budget| {
        let request = ReadRequest {
            cursor: cursor.as_ref(),
            limit: arguments.limit,
            budget,
        };
        read::read_output(&context.server.data, &row, &request, &is_over)
    });
    let mut fields = fields_of(&read.map_err(|error| refused(&error))?);
    if cursor.is_none() && fields.get("output").and_then(Value::as_str) == Some("") {
        let advice =
            "nothing was printed since the pane is observed; with screen, you see what it shows";
        fields.insert("advice".to_owned(), json!(advice));
    }
    fields.insert("id".to_owned(), json!(row.key().to_string()));
    if let Some(pane) = &row.pane {
        fields.insert("pane".to_owned(), json!(pane.as_str()));
    }
    Ok(ToolResult::new(fields))
}

/// Reads the present screen of a pane.
fn screen(
    context: &Context<'_>,
    observer: &Observer,
    arguments: &ReadOutput,
) -> Result<ToolResult, Refusal> {
    let (_, place) = context.one_pane(observer, &arguments.pane)?;
    let screen = observer.screen(&place.pane, Some(&place.server), false, context.stop);
    let screen = screen.map_err(|why| Refusal::new(why, "list_panes shows what there is"))?;
    let rows: Vec<String> = screen.rows.iter().map(|row| sanitized(&row.text)).collect();
    let text = rows.join("\n");
    let budget = Budget::new(arguments.limit.is_some());
    Ok(ToolResult::new(Map::from_iter([
        ("pane".to_owned(), json!(place.pane.as_str())),
        ("title".to_owned(), json!(one_line(&screen.title))),
        ("screen".to_owned(), json!(budget.fit_end(text.trim_end()))),
    ])))
}

/// Searches the histories.
pub(super) fn search_history(
    context: &Context<'_>,
    arguments: SearchHistory,
) -> Result<ToolResult, Refusal> {
    let cursor = arguments.cursor.as_deref().map(str::parse::<SearchCursor>);
    let cursor = cursor.transpose().map_err(|error| refused(&error))?;
    let since = arguments.since.as_deref();
    let since = since.map(|since| parse_since(since, context.clock().wall()));
    let since = since.transpose().map_err(|error| refused(&error))?;
    let rows = match &arguments.pane {
        Some(name) => Some(context.find_history(&context.observer()?, name)?),
        None => None,
    };
    let is_over = || context.is_cancelled();
    let request = SearchRequest {
        pattern: &arguments.pattern,
        is_regex: arguments.regex,
        rows: rows.as_deref(),
        since,
        limit: arguments.limit,
        budget: Budget::new(arguments.limit.is_some()).bytes(),
        cursor: cursor.as_ref(),
    };
    let found = search::search_history(&context.server.data, &request, &is_over);
    let found = found.map_err(|error| refused(&error))?;
    Ok(ToolResult::new(fields_of(&found)))
}

fn fields_of(result: &impl Serialize) -> Map<String, Value> {
    match json!(result) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns the refusal of a cursor, a pattern or a time that the client has given, or of a history that cannot be read.
pub(super) fn refused(error: &Error) -> Refusal {
    let advice = if error.is_invalid_input() {
        "change this argument, or leave it out, and call again"
    } else {
        "list_panes shows what there is"
    };
    Refusal::of_arguments(error.to_string(), advice)
}
