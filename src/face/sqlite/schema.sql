-- The tables of an exported history. Times are texts in UTC, such as 2026-01-21T10:00:01.123456Z, which sort.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    execution_id TEXT NOT NULL,
    kind TEXT,
    label TEXT,
    state TEXT,
    started TEXT,
    last_event TEXT,
    exit_status INTEGER,
    -- What the log lacks: events, by their numbers; lines that are no events; files that cannot be read.
    missing INTEGER NOT NULL DEFAULT 0,
    damaged INTEGER NOT NULL DEFAULT 0,
    unreadable INTEGER NOT NULL DEFAULT 0,
    -- The rows of this database: the events of a run have consecutive ids, from first_event on.
    first_event INTEGER,
    events INTEGER NOT NULL DEFAULT 0,
    lines INTEGER NOT NULL DEFAULT 0,
    path TEXT NOT NULL
);
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs,
    seq INTEGER,
    ts TEXT NOT NULL,
    type TEXT NOT NULL,
    pane TEXT,
    agent_id TEXT,
    -- The event's fields as JSON; of an event with lines, only what the lines do not say.
    data TEXT
);
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    event INTEGER NOT NULL REFERENCES events,
    line INTEGER,
    text TEXT NOT NULL
);
CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs,
    pane TEXT,
    agent_id TEXT,
    began TEXT,
    ended TEXT,
    -- The type of the event that ended it; NULL if the log ends before.
    ended_by TEXT,
    prompt TEXT,
    summary TEXT,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    tools INTEGER NOT NULL,
    failed_tools INTEGER NOT NULL,
    first_event INTEGER NOT NULL REFERENCES events,
    last_event INTEGER NOT NULL REFERENCES events
);
CREATE VIEW lines AS
    SELECT texts.id, events.run, events.seq, events.ts, events.type, events.pane, texts.line, texts.text
    FROM texts JOIN events ON events.id = texts.event;
CREATE VIEW tools AS
    SELECT id AS event, run, seq, ts, pane, data ->> 'tool_name' AS tool, data ->> 'success' AS success,
        data ->> 'duration_ms' AS duration_ms, data ->> 'result_summary' AS result
    FROM events WHERE type = 'ToolCallCompleted';
CREATE VIRTUAL TABLE lines_text USING fts5(text, content='texts', content_rowid='id', columnsize=0);
