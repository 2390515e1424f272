//! The scenes of each agent of the lab, and the expected reports.

/// The model's answer to a prompt with `SCN:text`.
pub const ANSWER: &str = "I will now describe what I have found";

/// An agent and its scenes.
pub struct Agent {
    /// Its name in the lab.
    pub lab: &'static str,
    /// Its name in events.
    pub name: &'static str,
    /// The text on the screen when the agent is ready.
    pub ready: &'static str,
    /// The scenes, in order.
    pub scenes: &'static [Scene],
}

/// A prompt and the expected steps.
pub struct Scene {
    /// The text to type.
    pub text: &'static str,
    pub steps: &'static [Step],
    /// Answers that begin with [`ANSWER`], tool calls, completed turns, sub-agents. `None` if they differ
    /// from run to run.
    pub counts: Option<Counts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub answers: usize,
    pub tools: usize,
    pub turns: usize,
    pub sub_agents: usize,
}

/// The next step of a scene.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The next state is this one.
    Is(&'static str),
    /// This state may come before the next one.
    May(&'static str),
    /// The next state is one of these.
    Ends(&'static [&'static str]),
    /// The next state is `waiting` with this question, which is answered with Enter.
    Asks(&'static str),
    /// The same with one of these questions that has not been asked yet, in any order.
    AsksOneOf(&'static [&'static str]),
    /// The screen shows this.
    Shows(&'static str),
    /// This key is typed.
    Key(&'static str),
}

use Step::{Asks, AsksOneOf, Ends, Is, Key, May, Shows};

const NONE: Counts = Counts {
    answers: 0,
    tools: 0,
    turns: 0,
    sub_agents: 0,
};
const ANSWERED: Counts = Counts {
    answers: 1,
    turns: 1,
    ..NONE
};

/// Returns the counts of an answer after this many tools.
const fn after(tools: usize) -> Counts {
    Counts { tools, ..ANSWERED }
}

const TEXT: Scene = Scene {
    text: "SCN:text hello",
    steps: &[Is("working"), Is("done")],
    counts: Some(ANSWERED),
};

const AGAIN: Scene = Scene {
    text: "SCN:text again",
    ..TEXT
};

const BASH: Scene = Scene {
    text: "SCN:bash do it",
    steps: &[
        Is("working"),
        Asks("touch made-by-agent.txt && ls"),
        Is("working"),
        Is("done"),
    ],
    counts: Some(after(1)),
};

/// Two dialogues, one after the other.
const PAR: Scene = Scene {
    text: "SCN:par both",
    steps: &[
        Is("working"),
        Asks("touch par-a.txt"),
        May("working"),
        Asks("touch par-b.txt; date > par-c.txt"),
        Is("working"),
        Is("done"),
    ],
    counts: Some(after(2)),
};

/// The same for an agent that starts both at once, in any order.
const PAR_AT_ONCE: Scene = Scene {
    steps: &[
        Is("working"),
        AsksOneOf(BOTH),
        May("working"),
        AsksOneOf(BOTH),
        Is("working"),
        Is("done"),
    ],
    ..PAR
};

const BOTH: &[&str] = &["touch par-a.txt", "touch par-b.txt; date > par-c.txt"];

/// The same if only the screen shows the state: a state shown for less than a second does not count.
const PAR_ON_SCREEN: Scene = Scene {
    steps: &[
        May("working"),
        Asks("touch par-a.txt"),
        May("working"),
        Asks("touch par-b.txt; date > par-c.txt"),
        May("working"),
        Is("done"),
    ],
    ..PAR
};

const THREE: Scene = Scene {
    text: "SCN:three steps",
    steps: &[Is("working"), Is("done")],
    counts: Some(Counts {
        tools: 3,
        turns: 1,
        ..NONE
    }),
};

/// The same for an agent that asks before each tool.
const THREE_ASKED: Scene = Scene {
    steps: &[
        Is("working"),
        Asks("echo step 1; sleep 1"),
        Is("working"),
        Asks("echo step 2; sleep 1"),
        Is("working"),
        Asks("echo step 3; sleep 1"),
        Is("working"),
        Is("done"),
    ],
    ..THREE
};

const THREE_ON_SCREEN: Scene = Scene {
    steps: &[
        May("working"),
        Asks("echo step 1; sleep 1"),
        May("working"),
        Asks("echo step 2; sleep 1"),
        May("working"),
        Asks("echo step 3; sleep 1"),
        May("working"),
        Is("done"),
    ],
    ..THREE
};

const ASK: Scene = Scene {
    text: "SCN:ask me",
    steps: &[
        Is("working"),
        Asks("Which colour shall it be?"),
        Is("working"),
        Is("done"),
    ],
    counts: Some(Counts {
        tools: 1,
        turns: 1,
        ..NONE
    }),
};

const TASK: Scene = Scene {
    text: "SCN:task now",
    // The end of the sub-agent sends the agent on, which is idle for a moment before.
    steps: &[Is("working"), Is("done")],
    counts: Some(Counts {
        tools: 1,
        turns: 1,
        sub_agents: 1,
        ..NONE
    }),
};

/// The end of a job in the background begins a turn.
const BGBASH: Scene = Scene {
    text: "SCN:bgbash now",
    steps: &[Is("working"), Is("done"), Is("working"), Is("done")],
    counts: Some(Counts {
        tools: 1,
        turns: 2,
        ..NONE
    }),
};

const LONG: Scene = Scene {
    text: "SCN:long please",
    steps: &[
        Is("working"),
        Shows("Paragraph 1"),
        Key("Escape"),
        Is("idle"),
    ],
    counts: Some(NONE),
};

/// A request may be refused before a screen shows that the agent works.
const E401: Scene = Scene {
    text: "SCN:e401 no",
    steps: &[May("working"), Is("error")],
    counts: Some(NONE),
};

const E429: Scene = Scene {
    text: "SCN:e429 no",
    steps: &[May("working"), Is("limited")],
    counts: Some(NONE),
};

const LIMIT: Scene = Scene {
    text: "SCN:limit no",
    ..E429
};

/// For an agent that retries until it is stopped.
const LIMIT_STOPPED: Scene = Scene {
    steps: &[Is("working"), Key("Escape"), Is("idle")],
    ..LIMIT
};

const E429_STOPPED: Scene = Scene {
    text: "SCN:e429 no",
    ..LIMIT_STOPPED
};

/// Some agents start the answer again before they give up.
const CUT: Scene = Scene {
    text: "SCN:cut it",
    steps: &[Is("working"), Is("error")],
    counts: None,
};

/// Claude may request the whole answer once more, which the stand-in gives.
const CUT_TWICE: Scene = Scene {
    steps: &[Is("working"), Ends(&["done", "error"])],
    ..CUT
};

const CLEAR: Scene = Scene {
    text: "/clear",
    steps: &[May("idle")],
    counts: Some(NONE),
};

const CLAUDE: Agent = Agent {
    lab: "claude",
    name: "claude",
    ready: "for shortcuts",
    scenes: &[
        TEXT, BASH, PAR, ASK, THREE, TASK, BGBASH, LONG, E401, E429, LIMIT, CUT_TWICE, CLEAR, AGAIN,
    ],
};

pub const AGENTS: &[Agent] = &[
    CLAUDE,
    Agent {
        lab: "claude-inline",
        ..CLAUDE
    },
    Agent {
        lab: "codex",
        name: "codex",
        ready: "Ask Codex",
        scenes: &[
            TEXT,
            BASH,
            PAR_AT_ONCE,
            THREE,
            LONG,
            E401,
            E429,
            LIMIT,
            CUT,
            CLEAR,
            AGAIN,
        ],
    },
    Agent {
        lab: "gemini",
        name: "gemini",
        ready: "Type your message",
        // The agent retries for minutes after a limit, and only shows that it works.
        scenes: &[TEXT, BASH, PAR, THREE_ASKED, LONG, E401, CUT, CLEAR, AGAIN],
    },
    Agent {
        lab: "qwen",
        name: "qwen",
        ready: "Type your message",
        scenes: &[
            TEXT,
            BASH,
            PAR,
            THREE_ASKED,
            LONG,
            E401,
            LIMIT_STOPPED,
            E429_STOPPED,
            CUT,
            // The title briefly shows that the agent works; the previous failure is over then.
            Scene {
                steps: &[May("working"), Is("idle")],
                ..CLEAR
            },
            AGAIN,
        ],
    },
    Agent {
        lab: "aider",
        name: "aider",
        ready: "Repo-map",
        scenes: &[
            TEXT,
            Scene {
                steps: &[Is("working"), Shows("Paragraph 1"), Key("C-c"), Is("idle")],
                ..LONG
            },
            E401,
            Scene {
                steps: &[Is("working"), Shows("Retrying in"), Key("C-c"), Is("idle")],
                ..E429
            },
            // The agent retries until it is stopped.
            Scene {
                steps: &[Is("working"), Shows("Retrying in"), Key("C-c"), Is("idle")],
                ..CUT
            },
            CLEAR,
            AGAIN,
        ],
    },
    Agent {
        lab: "opencode",
        name: "opencode",
        ready: "Ask anything",
        scenes: &[
            TEXT,
            // The screen must be unchanged for a second to count as a state.
            Scene {
                steps: &[
                    May("working"),
                    Asks("touch made-by-agent.txt && ls"),
                    Is("working"),
                    Is("done"),
                ],
                ..BASH
            },
            PAR_ON_SCREEN,
            THREE_ON_SCREEN,
            // The key must be pressed twice to stop the agent.
            Scene {
                steps: &[
                    Is("working"),
                    Shows("Paragraph 1"),
                    Key("Escape"),
                    Shows("esc again to interrupt"),
                    Key("Escape"),
                    Is("idle"),
                ],
                ..LONG
            },
            E401,
            // The stand-in forbids another try.
            Scene {
                steps: &[May("working"), Is("limited")],
                ..LIMIT
            },
            Scene {
                text: "/new",
                ..CLEAR
            },
            AGAIN,
        ],
    },
    Agent {
        lab: "copilot",
        name: "copilot",
        ready: "/ commands",
        scenes: &[
            TEXT,
            BASH,
            PAR_AT_ONCE,
            THREE_ASKED,
            Scene {
                steps: &[Is("working"), Shows("Paragraph 1"), Key("C-c"), Is("idle")],
                ..LONG
            },
            E401,
            E429,
            LIMIT,
            CUT,
            CLEAR,
            AGAIN,
        ],
    },
];
