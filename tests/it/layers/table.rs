//! The rules of the house, as data.

/// The rooms in reading order: each uses only the rooms above it. `lib.rs` has the same order.
pub const LAYERS: &[&str] = &[
    "guide",
    "error",
    "timestamp",
    "event",
    "clock",
    "thread",
    "escapes",
    "text",
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
    "kernel",
    "agent_loop",
    "wait",
    "board",
    "engine",
    "feed",
    "api",
    "face",
    "adapter",
    "cli",
    "internals",
];

/// Files and directories that own no thread, channel, file or clock: they take and return values.
pub const PURE: &[&str] = &[
    "src/track/",
    "src/agent/",
    "src/redact/",
    "src/recording/encoder.rs",
    "src/recording/join.rs",
    "src/recording/pane_encoder.rs",
    "src/bus/throttle.rs",
    "src/event/",
    "src/escapes.rs",
    "src/escapes/",
    "src/text.rs",
    "src/process/output.rs",
    "src/process/pane_jobs.rs",
    "src/process/record_splitter.rs",
    "src/process/shell.rs",
    "src/observe/polled_pane.rs",
    "src/observe/pane_observer/",
    "src/observe/session_outcome.rs",
    "src/wait/matcher.rs",
    "src/wait/pane.rs",
    "src/kernel/liveness.rs",
    "src/kernel/cell.rs",
    "src/kernel/notebook.rs",
    "src/kernel/protocol.rs",
    "src/agent_loop/model/messages.rs",
    "src/agent_loop/model/http/body.rs",
    "src/history/name.rs",
    "src/history/line.rs",
    "src/history/replay_pace.rs",
    "src/history/read/query.rs",
    "src/history/read/parse.rs",
    "src/history/rotate.rs",
    "src/wait/spec.rs",
    "src/wait/states.rs",
    "src/board/",
    "src/api/client_message.rs",
    "src/feed/position.rs",
    "src/api/liveness.rs",
    "src/api/http.rs",
    "src/api/seen.rs",
    "src/face/ansi.rs",
    "src/face/asciicast.rs",
    "src/face/board_table.rs",
    "src/face/console.rs",
    "src/face/console/",
    "src/face/conversation.rs",
    "src/face/describe.rs",
    "src/face/lines.rs",
    "src/face/sanitize.rs",
    "src/face/session_labels.rs",
    "src/face/stream_lines.rs",
    "src/face/text_export.rs",
    "src/face/tree.rs",
    "src/face/tui/board.rs",
    "src/face/tui/cells.rs",
    "src/face/tui/draw.rs",
    "src/face/tui/effect.rs",
    "src/face/tui/keys.rs",
    "src/face/tui/layout.rs",
    "src/face/tui/lines.rs",
    "src/face/tui/model.rs",
    "src/face/tui/prompt.rs",
    "src/face/tui/search.rs",
    "src/face/tui/timeline.rs",
    "src/face/tui/view.rs",
    "src/timestamp.rs",
];

/// Paths that no pure file may name.
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
    "EventBus",
    "EventEmitter",
];

/// Functions that pure files may call although their files also do something else: they only compute.
pub const PURE_FUNCTIONS: &[&str] = &[
    "AgentEventConverter::for_screen",
    "check_types",
    "start_point",
    "time_of",
    "Wait::at",
    "WaitMatch::of_state",
];

/// Paths that only some files may name, with the rule.
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
        &[
            "src/child.rs",
            "src/child/",
            "src/tmux/",
            "src/process/",
            "src/kernel/process.rs",
        ],
        "only child, tmux, process and kernel start processes",
    ),
    (
        &[
            "io::stdout",
            "io::stderr",
            "anstream::stdout",
            "anstream::stderr",
        ],
        // A drain redirects them, so that nothing is printed there.
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
        // Its bound is the bytes of its events.
        &["src/bus/inbox.rs"],
        "every queue is bounded",
    ),
];

/// Sequences of tokens that only some files may contain, with the rule.
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
    (
        &["unbounded", "("],
        &["src/bus/inbox.rs"],
        "every queue is bounded",
    ),
    (
        &["unsafe"],
        &["src/process/os/pidfd.rs"],
        "only pidfd.rs makes a system call that no crate wraps",
    ),
];

/// Pairs of rooms of which the first must not use the second although the order allows it.
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
