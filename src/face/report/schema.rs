//! The JSON Schema of a report (pure).

use serde_json::{Map, Value, json};

use super::model::{ErrorKind, Reason, SCHEMA};
use crate::board::ExecutionKind;
use crate::board::bands::Band;

/// A field: its name, its documentation and its schema.
type Field = (&'static str, &'static str, Value);

/// Returns the JSON Schema (draft 2020-12) of a report. Later versions add fields and values.
pub(crate) fn json_schema() -> Value {
    let mut schema = object(vec![
        (
            "schema",
            "The version of the format.",
            json!({"const": SCHEMA}),
        ),
        ("since", "The start of the span.", time()),
        (
            "until",
            "The end of the span, which does not belong to it.",
            time(),
        ),
        (
            "metadata_only",
            "True if all text is left out. Ids are numbers then.",
            json!({"type": "boolean"}),
        ),
        (
            "needs_you",
            "The ids of the rows that need the user at the end of the span, the most urgent first.",
            list(text()),
        ),
        (
            "totals",
            "The figures of all rows that are not told elsewhere, and of all histories.",
            totals(),
        ),
        (
            "rows",
            "What was there within the span: panes, commands, loops, background agents and kernels; first what needs the user.",
            list(row()),
        ),
        (
            "runs",
            "The histories with an event up to the end of the span.",
            list(run()),
        ),
        ("problems", "What could not be read at all.", list(text())),
        (
            "hosts",
            "The hosts that were asked for their reports; empty if this one alone was.",
            list(object(vec![
                ("name", "Its name; local is this one.", text()),
                (
                    "is_read",
                    "False if its report is not here.",
                    json!({"type": "boolean"}),
                ),
            ])),
        ),
    ]);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("td-observe report");
    schema
}

fn row() -> Value {
    object(vec![
        (
            "host",
            "The host, if it is another one. The ids of its rows and runs begin with it.",
            or_null(text()),
        ),
        ("id", "The id of the row, as status --json has it.", text()),
        ("execution_id", "The id of its run.", text()),
        ("name", "The name for people.", or_null(text())),
        (
            "label",
            "What tells it apart from others of its name.",
            or_null(text()),
        ),
        ("pane", "The pane, for a pane.", or_null(text())),
        (
            "kind",
            "The kind of execution.",
            names(ExecutionKind::ALL.map(ExecutionKind::as_str)),
        ),
        ("agent", "The program.", or_null(text())),
        ("state", "What it did at the end of the span.", band()),
        (
            "needs_you",
            "True if it needs the user at the end of the span, or did when its observation ended and goes on.",
            json!({"type": "boolean"}),
        ),
        (
            "told_elsewhere",
            "True for a row that lists leave out, because another one tells it: the pane in which a command ran, the file of the agent in a pane. No total has it.",
            json!({"type": "boolean"}),
        ),
        (
            "from",
            "The start of the part of the span in which it is known.",
            time(),
        ),
        ("until", "The end of the span, or its own end.", time()),
        ("end", "How it ended, or what it does.", end()),
        (
            "bands",
            "What it did over time, without its end.",
            list(object(vec![
                ("state", "The activity.", band()),
                ("from", "Its start within the span.", time()),
                ("until", "Its end within the span.", time()),
            ])),
        ),
        (
            "times_ms",
            "The time in each activity within the span, in milliseconds.",
            times(),
        ),
        (
            "questions",
            "The questions that were open within the span.",
            questions(),
        ),
        ("turns", "The turns that ended within the span.", turns()),
        ("tools", "The calls of tools within the span.", tools()),
        (
            "tokens",
            "The tokens that records state, also of the transcript; null if none does.",
            or_null(object(vec![
                ("input", "Tokens that models read.", count()),
                ("output", "Tokens that models wrote.", count()),
            ])),
        ),
        (
            "cost_usd",
            "The cost in US dollars that records state, never an estimate; null if none does.",
            or_null(json!({"type": "number"})),
        ),
        (
            "summaries",
            "What an agent writes of its work itself.",
            list(object(vec![
                ("at", "When.", or_null(time())),
                ("text", "The summary.", text()),
                ("source", "Where it is from.", source()),
            ])),
        ),
        ("checks", "The checks and iterations of a loop.", checks()),
        (
            "jobs",
            "The jobs of a pane's shell, or the cells of a kernel, that ended within the span.",
            jobs(),
        ),
        ("errors", "The errors within the span.", errors()),
        (
            "gaps",
            "What was printed and could not be observed within the span.",
            gaps(),
        ),
        (
            "transcript",
            "What the agent's own files have beyond the log: of the times in which nothing observed them, of sub-agents, and \
             what no event has. The figures above have it, too, but for the last two. Null if nothing.",
            or_null(object(vec![
                ("file", "The last file.", or_null(text())),
                ("turns", "Turns.", count()),
                ("prompts", "Prompts.", count()),
                ("tool_calls", "Calls of tools.", count()),
                ("tools_failed", "Calls that failed.", count()),
                ("input_tokens", "Tokens that models read.", count()),
                ("output_tokens", "Tokens that models wrote.", count()),
                (
                    "cached_input_tokens",
                    "Tokens of caches, where the agent counts them apart; of all of the span.",
                    count(),
                ),
                (
                    "thought_tokens",
                    "Tokens of thoughts, where the agent counts them apart; of all of the span.",
                    count(),
                ),
            ])),
        ),
    ])
}

fn totals() -> Value {
    const FIGURES: [(&str, &str); 18] = [
        ("rows", "Rows that are not told elsewhere."),
        ("needs_you", "Rows that need the user."),
        ("turns", "Turns."),
        ("questions", "Questions."),
        ("unanswered", "Questions without an answer."),
        ("tool_calls", "Calls of tools."),
        ("tools_failed", "Calls that failed."),
        ("input_tokens", "Tokens that models read."),
        ("output_tokens", "Tokens that models wrote."),
        ("checks_passed", "Checks of loops that passed."),
        ("checks_failed", "Checks of loops that failed."),
        ("jobs", "Jobs and cells."),
        ("jobs_failed", "Jobs and cells that failed."),
        ("errors", "Errors."),
        ("gaps", "Confirmed gaps."),
        ("lost_lines", "Lines lost in them."),
        ("dropped_events", "Events that logs had to drop."),
        ("missing_events", "Events that were logged and are gone."),
    ];
    object(FIGURES.map(|(name, about)| (name, about, count())).into())
}

fn times() -> Value {
    let shown = Band::ALL.into_iter().filter(|band| *band != Band::Ended);
    let fields = shown.map(|band| (band.as_str(), "The time in this activity.", count()));
    object(fields.collect())
}

fn end() -> Value {
    object(vec![
        (
            "reason",
            "Why it ended, or what holds it up.",
            values(&Reason::ALL),
        ),
        (
            "words",
            "The same in words, without what programs print.",
            text(),
        ),
        ("detail", "What the program says of it.", or_null(text())),
        ("at", "Since when it is so.", time()),
        (
            "exit_status",
            "The exit status, or 128 + n for a signal.",
            or_null(json!({"type": "integer"})),
        ),
        (
            "limit_until",
            "When the limit ends, if the agent says so.",
            or_null(time()),
        ),
        ("lines", "The last lines before a failure.", list(text())),
    ])
}

fn questions() -> Value {
    object(vec![
        ("count", "Their number.", count()),
        (
            "unanswered",
            "Those that stayed open until the end of the span, of the row or of its observation.",
            count(),
        ),
        (
            "longest_wait_ms",
            "The longest wait within the span.",
            count(),
        ),
        (
            "items",
            "The last 200.",
            list(object(vec![
                ("from", "When it was asked.", time()),
                (
                    "until",
                    "The end of the wait; null while it is open.",
                    or_null(time()),
                ),
                (
                    "answered",
                    "True if the program went on.",
                    json!({"type": "boolean"}),
                ),
                ("asks", "The question.", or_null(text())),
                ("question_id", "Its id.", or_null(text())),
            ])),
        ),
    ])
}

fn turns() -> Value {
    object(vec![
        ("count", "Their number.", count()),
        ("prompts", "The prompts within the span.", count()),
        (
            "items",
            "The last 200.",
            list(object(vec![
                (
                    "began",
                    "The time of the prompt, if it is known.",
                    or_null(time()),
                ),
                ("ended", "The time of the end.", time()),
                ("summary", "The beginning of the answer.", or_null(text())),
                ("tool_calls", "The calls of tools in it.", count()),
                ("tools_failed", "Those that failed.", count()),
                ("input_tokens", "Tokens that the model read.", count()),
                ("output_tokens", "Tokens that the model wrote.", count()),
                ("source", "Where it is from.", source()),
            ])),
        ),
    ])
}

fn tools() -> Value {
    object(vec![
        ("calls", "The calls that began.", count()),
        ("failed", "The calls that failed.", count()),
        (
            "by_name",
            "The same by the name of the tool, the most called first.",
            list(object(vec![
                ("name", "The name.", text()),
                ("calls", "The calls that began.", count()),
                ("failed", "The calls that failed.", count()),
                ("duration_ms", "The time of the calls that ended.", count()),
            ])),
        ),
    ])
}

fn checks() -> Value {
    let outcomes = [
        "validation_passed",
        "validation_failed",
        "max_turns_reached",
        "tool_error",
        "llm_error",
    ];
    object(vec![
        ("passed", "The checks that passed.", count()),
        ("failed", "The checks that failed.", count()),
        ("iterations", "The iterations that ended.", count()),
        (
            "outcomes",
            "The last 200.",
            list(object(vec![
                ("at", "When the iteration ended.", time()),
                ("iteration", "Its number, from 1.", count()),
                ("outcome", "How it ended.", names(outcomes)),
                (
                    "exit_code",
                    "Of a check that failed.",
                    or_null(json!({"type": "integer"})),
                ),
                ("detail", "The words of an error.", or_null(text())),
            ])),
        ),
    ])
}

fn jobs() -> Value {
    object(vec![
        ("count", "Their number.", count()),
        ("failed", "Those that failed.", count()),
        (
            "items",
            "The last 200 that failed.",
            list(object(vec![
                ("at", "When it ended.", time()),
                ("command", "The command line.", or_null(text())),
                (
                    "exit_status",
                    "The exit status, or 128 + n for a signal.",
                    or_null(json!({"type": "integer"})),
                ),
                ("duration_ms", "Its duration.", count()),
                ("lines", "The last lines that it printed.", list(text())),
            ])),
        ),
    ])
}

fn errors() -> Value {
    object(vec![
        ("count", "Their number.", count()),
        (
            "items",
            "The last 200.",
            list(object(vec![
                ("at", "When.", time()),
                ("kind", "What it is.", values(&ErrorKind::ALL)),
                ("text", "Its words.", or_null(text())),
            ])),
        ),
    ])
}

fn gaps() -> Value {
    object(vec![
        ("count", "The confirmed gaps.", count()),
        ("possible", "The gaps that are only possible.", count()),
        (
            "lost_lines",
            "The lines lost in confirmed gaps, where their number is known.",
            count(),
        ),
        (
            "items",
            "The last 200 confirmed ones.",
            list(object(vec![
                ("at", "When.", time()),
                ("lost_lines", "The lines lost in it.", or_null(count())),
                ("reason", "Why they could not be observed.", text()),
            ])),
        ),
    ])
}

fn run() -> Value {
    object(vec![
        ("host", "The host, if it is another one.", or_null(text())),
        ("execution_id", "The id of the run.", text()),
        (
            "state",
            "Its state at present.",
            names([
                "running",
                "cut off",
                "completed",
                "failed",
                "detached",
                "unknown",
            ]),
        ),
        (
            "foreign",
            "True for the log of another program.",
            json!({"type": "boolean"}),
        ),
        ("started", "When it began.", time()),
        ("last_event", "The time of its last event.", time()),
        (
            "restarts",
            "How many processes went on with the log within the span.",
            count(),
        ),
        (
            "dropped_events",
            "Events that the log had to drop within the span.",
            count(),
        ),
        (
            "missing_events",
            "Events that were logged and are gone.",
            count(),
        ),
        ("damaged_lines", "Lines that are no events.", count()),
        (
            "torn_files",
            "Files whose last line is incomplete.",
            count(),
        ),
        (
            "problems",
            "What could not be read, and crashes.",
            list(text()),
        ),
    ])
}

fn source() -> Value {
    names(["log", "transcript"])
}

fn band() -> Value {
    names(Band::ALL.map(Band::as_str))
}

fn object(fields: Vec<Field>) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
    let mut properties = Map::new();
    for (name, about, mut schema) in fields {
        schema["description"] = json!(about);
        properties.insert(name.to_owned(), schema);
    }
    json!({"type": "object", "required": required, "properties": properties})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn names<const N: usize>(names: [&str; N]) -> Value {
    json!({"enum": names.as_slice()})
}

/// Returns the names of values, as serde writes them.
fn values<T: serde::Serialize>(values: &[T]) -> Value {
    json!({"enum": values})
}

fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}
