//! The rules of the house, as data.

/// The rooms in reading order: each uses only what stands above it. `lib.rs` has the same order.
pub const LAYERS: &[&str] = &[
    "guide",
    "error",
    "timestamp",
    "event",
    "clock",
    "thread",
    "redact",
    "track",
    "agent",
    "bus",
    "history",
    "recording",
    "child",
    "tmux",
    "process",
    "observe",
    "agent_loop",
    "wait",
    "board",
    "engine",
    "api",
    "face",
    "adapter",
    "cli",
    "fuzzing",
];

/// These own no thread, channel, file or clock: values in, values out.
pub const PURE: &[&str] = &[
    "src/track/",
    "src/agent/",
    "src/redact/",
    "src/recording/encoder.rs",
    "src/recording/join.rs",
    "src/recording/pane_encoder.rs",
    "src/recording/screen.rs",
    "src/bus/throttle.rs",
    "src/event/line_decoder.rs",
    "src/event/log_gap.rs",
    "src/event/scan.rs",
    "src/process/head_tail.rs",
    "src/process/pane_jobs.rs",
    "src/process/line_assembler.rs",
    "src/process/output_batcher.rs",
    "src/process/record_splitter.rs",
    "src/process/shell.rs",
    "src/observe/session_outcome.rs",
    "src/agent_loop/model/request.rs",
    "src/agent_loop/model/response.rs",
    "src/agent_loop/model/http/body.rs",
    "src/agent_loop/model/http/retry.rs",
    "src/history/line.rs",
    "src/history/replay_pace.rs",
    "src/history/read/query.rs",
    "src/history/read/json_regex.rs",
    "src/history/read/line_filter.rs",
    "src/history/read/parse.rs",
    "src/history/rotate.rs",
    "src/wait/outcome.rs",
    "src/wait/spec.rs",
    "src/wait/states.rs",
    "src/board/",
    "src/api/client_message.rs",
    "src/api/cursor.rs",
    "src/api/journal.rs",
    "src/api/request.rs",
    "src/face/board_table.rs",
    "src/face/ansi.rs",
    "src/face/ansi/",
    "src/face/asciicast.rs",
    "src/face/asciicast/",
    "src/face/clean.rs",
    "src/face/console.rs",
    "src/face/console/",
    "src/face/conversation.rs",
    "src/face/describe.rs",
    "src/face/describe/",
    "src/face/execution_lines.rs",
    "src/face/last_revisions.rs",
    "src/face/plain_text.rs",
    "src/face/live_rows.rs",
    "src/face/session_labels.rs",
    "src/face/stream_lines.rs",
    "src/face/survey.rs",
    "src/face/tone.rs",
    "src/face/text_export.rs",
    "src/face/tree.rs",
    "src/timestamp.rs",
];

/// Paths that no pure file names.
pub const IMPURE: &[&str] = &[
    "std::fs",
    "std::thread",
    "std::process",
    "std::net",
    "std::env",
    "std::os",
    "std::sync::mpsc",
    "std::io::Read",
    "std::io::BufRead",
    "std::io::BufReader",
    "std::io::stdin",
    "SystemTime",
    "crossbeam_channel",
    "rustix",
    "crate::clock",
    "crate::thread",
];

/// Paths that live in some files only, and why.
pub const ONLY_IN: &[(&[&str], &[&str], &str)] = &[
    (
        &["std::thread"],
        &["src/thread.rs"],
        "only thread.rs names std::thread",
    ),
    (
        &[
            "Instant::now",
            "SystemTime",
            "Zoned::now",
            "Timestamp::now",
            "clock_gettime",
            "crossbeam_channel::after",
            "crossbeam_channel::at",
            "crossbeam_channel::tick",
        ],
        &["src/clock.rs"],
        "only clock.rs reads time",
    ),
    (
        &["process::Command"],
        &["src/child.rs", "src/child/", "src/tmux/", "src/process/"],
        "only child, tmux and process start processes",
    ),
    (
        &[
            "io::stdout",
            "io::stderr",
            "anstream::stdout",
            "anstream::stderr",
        ],
        // A drain sees to it that nothing is printed there.
        &[
            "src/face/",
            "src/cli/",
            "src/main.rs",
            "src/tmux/pipe/drain.rs",
        ],
        "only face, cli and main.rs print",
    ),
    (
        &["mpsc::channel", "unbounded"],
        &[],
        "every queue is bounded",
    ),
];

/// Runs of tokens that live in some files only.
pub const TOKENS_ONLY_IN: &[(&[&str], &[&str], &str)] = &[
    (
        &["print", "!"],
        &["src/face/", "src/cli/", "src/main.rs"],
        "only face, cli and main.rs print",
    ),
    (
        &["println", "!"],
        &["src/face/", "src/cli/", "src/main.rs"],
        "only face, cli and main.rs print",
    ),
    (
        &["eprint", "!"],
        &["src/face/", "src/cli/", "src/main.rs"],
        "only face, cli and main.rs print",
    ),
    (
        &["eprintln", "!"],
        &["src/face/", "src/cli/", "src/main.rs"],
        "only face, cli and main.rs print",
    ),
    (
        &[".", "elapsed", "(", ")"],
        &["src/clock.rs"],
        "only clock.rs reads time",
    ),
    (&["unbounded", "("], &[], "every queue is bounded"),
    (
        &["unsafe"],
        &["src/process/os/pidfd.rs"],
        "only pidfd.rs asks the kernel what no crate asks it",
    ),
];

/// Rooms that do not know each other although the order would let them.
pub const STRANGERS: &[(&str, &str)] = &[
    ("history", "bus"),
    ("bus", "track"),
    ("history", "track"),
    ("recording", "bus"),
    ("child", "bus"),
    ("child", "history"),
    ("child", "track"),
    ("tmux", "bus"),
    ("tmux", "history"),
    ("agent_loop", "tmux"),
    ("agent_loop", "track"),
];

/// Asynchronous runtimes and their executors, by the names of their packages.
pub const RUNTIMES: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "async-executor",
    "async-io",
    "futures-executor",
    "monoio",
];
