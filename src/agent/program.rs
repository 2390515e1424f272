//! Recognises coding agents by the program and arguments of a process (pure).
//!
//! The facts come from real processes of November 2026 (Claude Code 2.1.330, Codex 0.169, Gemini
//! CLI 0.61, opencode 1.18, aider 0.86, Qwen Code 0.24, Copilot CLI 1.0). A program that only has
//! an agent's name among its arguments (`vim claude.md`, `grep codex`) is not an agent.

use std::fmt;
use std::path::Path;

/// An agent whose screens are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum KnownAgent {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Aider,
    Qwen,
    Copilot,
    Cline,
    Kilo,
    Vibe,
    Kimi,
    Cn,
    Pi,
    Agy,
    Cursor,
}

/// The interactive agent that a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentProgram {
    /// An agent whose screens are known.
    Known(KnownAgent),
    /// An agent whose name alone is known.
    Other(String),
}

/// The sessions that Claude Code shows which are not its own: a daemon runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShownSessions {
    /// All of them, in a list.
    All,
    /// The one with this id.
    One(String),
}

/// The name under which a pane is shown that is a view of another observed pane.
pub(crate) const VIEWER: &str = "tmux";

/// Command names of other agents. Events use these names; no rules exist for these agents.
const OTHERS: &str =
    "amp auggie codebuff continue crush droid goose grok kiro-cli openhands plandex";

/// Options that make any agent print information and exit.
const INFORMATION_OPTIONS: &[&str] = &["--version", "--help", "-h"];

/// Interpreters; the script they run counts as the program.
const INTERPRETERS: &[&str] = &[
    "node", "nodejs", "bun", "deno", "python", "pypy", "uv", "ruby",
];

/// What identifies the processes of an agent.
struct ProgramFacts {
    agent: KnownAgent,
    /// The name of the agent's command, as events and rules use it.
    name: &'static str,
    /// Other names of its program.
    aliases: &'static [&'static str],
    /// Directories of its package. The script that starts a package may have any name (`cli.js`, `index.js`).
    packages: &'static [&'static str],
    /// Options besides [`INFORMATION_OPTIONS`] with which the agent answers one prompt and exits, or does not answer
    /// at all.
    batch_options: &'static [&'static str],
    /// Subcommands that do the same.
    batch_commands: &'static str,
}

/// The subcommands of opencode, and of its fork kilo.
const OPENCODE_COMMANDS: &str = "run serve web auth agent models upgrade uninstall stats export import github mcp acp \
                                 session debug db plugin pr completion providers plug console cloud roll-call profile \
                                 remote daemon config worktree help";

const FACTS: [ProgramFacts; 15] = [
    ProgramFacts {
        agent: KnownAgent::Claude,
        name: "claude",
        aliases: &[],
        // The installer without npm names the program by its version.
        packages: &[
            "/node_modules/@anthropic-ai/claude-code",
            "/claude/versions",
        ],
        // `--json` is an option of `agents`, whose view of all sessions is interactive without it.
        batch_options: &["-p", "--print", "-v", "--json"],
        batch_commands: "mcp config doctor update install migrate-installer setup-token plugin auth daemon",
    },
    ProgramFacts {
        agent: KnownAgent::Codex,
        name: "codex",
        aliases: &[],
        packages: &["/node_modules/@openai/codex"],
        batch_options: &["-V"],
        batch_commands: "exec e review login logout mcp mcp-server app-server app completion sandbox debug apply a \
                         cloud exec-server features proto",
    },
    ProgramFacts {
        agent: KnownAgent::Gemini,
        name: "gemini",
        aliases: &[],
        packages: &["/node_modules/@google/gemini-cli"],
        batch_options: &["-p", "--prompt", "--acp", "--experimental-acp", "-v"],
        batch_commands: "mcp extensions hooks skills",
    },
    ProgramFacts {
        agent: KnownAgent::Opencode,
        name: "opencode",
        aliases: &[],
        packages: &["/node_modules/opencode-ai"],
        batch_options: &["-v"],
        batch_commands: OPENCODE_COMMANDS,
    },
    ProgramFacts {
        agent: KnownAgent::Aider,
        name: "aider",
        aliases: &[],
        packages: &[],
        batch_options: &["-m", "--message", "--msg", "-f", "--message-file"],
        batch_commands: "",
    },
    ProgramFacts {
        agent: KnownAgent::Qwen,
        name: "qwen",
        aliases: &[],
        packages: &["/node_modules/@qwen-code/qwen-code"],
        batch_options: &["-p", "--prompt", "--acp", "--experimental-acp", "-v"],
        batch_commands: "mcp extensions hooks skills",
    },
    ProgramFacts {
        agent: KnownAgent::Copilot,
        name: "copilot",
        aliases: &[],
        packages: &["/node_modules/@github/copilot"],
        batch_options: &["-p", "--prompt", "--acp"],
        batch_commands: "help update login version plugin mcp",
    },
    ProgramFacts {
        agent: KnownAgent::Cline,
        name: "cline",
        aliases: &[],
        packages: &["/node_modules/cline", "/node_modules/@cline/cli"],
        batch_options: &["-V", "--json", "--acp", "--update", "--kanban"],
        batch_commands: "auth config plugin skill connect mcp doctor history h hook schedule hub dashboard update \
                         version kanban",
    },
    ProgramFacts {
        agent: KnownAgent::Kilo,
        name: "kilo",
        aliases: &["kilocode"],
        packages: &["/node_modules/@kilocode/cli"],
        batch_options: &["-v"],
        batch_commands: OPENCODE_COMMANDS,
    },
    ProgramFacts {
        agent: KnownAgent::Vibe,
        name: "vibe",
        // Its server, which is its child, sets the title of its process.
        aliases: &["vibe-rs", "vibe-app-server"],
        packages: &[],
        batch_options: &[
            "-p",
            "--prompt",
            "--prompt-file",
            "--setup",
            "--check-upgrade",
            "-v",
        ],
        batch_commands: "mcp help update",
    },
    ProgramFacts {
        agent: KnownAgent::Kimi,
        name: "kimi",
        // It sets the title of its process.
        aliases: &["kimi-cli", "Kimi Code"],
        packages: &[],
        batch_options: &[
            "-p",
            "--prompt",
            "-c",
            "--command",
            "--print",
            "--acp",
            "--wire",
            "-V",
        ],
        batch_commands: "login logout info acp mcp web term",
    },
    ProgramFacts {
        agent: KnownAgent::Cn,
        name: "cn",
        aliases: &[],
        packages: &["/node_modules/@continuedev/cli"],
        batch_options: &["-p", "--print", "-v"],
        batch_commands: "ls checks review login logout serve remote",
    },
    ProgramFacts {
        agent: KnownAgent::Pi,
        name: "pi",
        aliases: &[],
        packages: &["/node_modules/@mariozechner/pi-coding-agent"],
        batch_options: &["-p", "--print", "--mode", "-v"],
        batch_commands: "install remove update list config",
    },
    ProgramFacts {
        agent: KnownAgent::Agy,
        name: "agy",
        aliases: &[],
        packages: &[],
        batch_options: &["-p", "--print", "--prompt"],
        batch_commands: "",
    },
    ProgramFacts {
        agent: KnownAgent::Cursor,
        name: "cursor",
        aliases: &["cursor-agent"],
        packages: &["/cursor-agent"],
        batch_options: &["-p", "--print", "-v"],
        batch_commands: "login logout mcp status whoami update ls models about",
    },
];

impl KnownAgent {
    /// Returns true if the program of this name takes the key of a choice at once, in a dialogue that `has_choices`.
    /// Scripts, shells and aider read lines; of other programs, a dialogue is known only if it is a menu.
    #[cfg(feature = "cli")]
    pub(crate) fn takes_keys(name: Option<&str>, has_choices: bool) -> bool {
        name.is_some_and(|name| name != "aider" && (has_choices || Self::named(name).is_some()))
    }

    #[cfg(test)]
    pub fn all() -> impl Iterator<Item = Self> {
        FACTS.iter().map(|facts| facts.agent)
    }

    pub fn named(name: &str) -> Option<Self> {
        FACTS
            .iter()
            .find(|facts| facts.name == name)
            .map(|facts| facts.agent)
    }

    /// Returns the name of the agent's command, as events and rules use it.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    fn facts(self) -> &'static ProgramFacts {
        // A test proves that each agent stands at its place.
        &FACTS[self as usize]
    }

    fn is_interactive(self, arguments: &[String]) -> bool {
        // The first argument that is not an option is the subcommand or the prompt. Arguments after
        // `--` belong to the prompt.
        let options = arguments.iter().take_while(|argument| *argument != "--");
        let (mut command, mut is_batch) = (None, false);
        for argument in options {
            let name = argument.split('=').next().unwrap_or_default();
            if argument.starts_with('-') {
                is_batch |= INFORMATION_OPTIONS.contains(&name);
                is_batch |= self.facts().batch_options.contains(&name);
            } else {
                command = command.or(Some(argument.as_str()));
            }
        }
        let is_command = command.is_some_and(|command| {
            // A later argument could be the value of an option.
            arguments.first().is_some_and(|first| first == command)
                && has_word(self.facts().batch_commands, command)
        });
        !is_batch && !is_command
    }
}

impl fmt::Display for KnownAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl AgentProgram {
    /// Recognises the agent that a process runs. Returns `None` for other programs and for agents that
    /// answer one prompt and exit (`claude -p`). `executable` is the file of the process, if known.
    pub fn recognise(executable: Option<&Path>, arguments: &[String]) -> Option<Self> {
        let (program, rest) = of_script(arguments)?;
        if let Some(agent) = known(executable, Path::new(program)) {
            return agent.is_interactive(rest).then_some(Self::Known(agent));
        }
        let name = name_of(Path::new(program))?;
        has_word(OTHERS, name).then(|| Self::Other(name.to_owned()))
    }

    /// Returns the agent of this name, which a pane declares. Names consist of at most 40 letters, digits, `-`, `_` and
    /// `.`; those of rows that are no agents are none.
    pub fn declared(name: &str) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.len() <= 40
            && name.bytes().all(is_part);
        if !is_name || [VIEWER, "shell"].contains(&name) {
            return None;
        }
        let known = known(None, Path::new(name)).map(Self::Known);
        Some(known.unwrap_or_else(|| Self::Other(name.to_owned())))
    }

    /// Returns the sessions that this agent shows with these arguments; `None` if it has one of its own.
    pub fn shown_sessions(&self, arguments: &[String]) -> Option<ShownSessions> {
        if *self != Self::Known(KnownAgent::Claude) {
            return None;
        }
        match of_script(arguments)?.1 {
            [command, ..] if command == "agents" => Some(ShownSessions::All),
            [command, id, ..] if command == "attach" => Some(ShownSessions::One(id.clone())),
            _ => None,
        }
    }

    /// Returns true for the name of an agent, as events use it.
    #[cfg(feature = "cli")]
    pub fn is_name(name: &str) -> bool {
        KnownAgent::named(name).is_some() || has_word(OTHERS, name)
    }

    /// Returns the name, as events use it.
    pub fn name(&self) -> &str {
        match self {
            Self::Known(agent) => agent.name(),
            Self::Other(name) => name,
        }
    }

    /// Returns the agent, if its files and screens are known.
    pub fn known(&self) -> Option<KnownAgent> {
        match self {
            Self::Known(agent) => Some(*agent),
            Self::Other(_) => None,
        }
    }
}

/// Returns the program and its arguments; the script that an interpreter runs counts as the program.
fn of_script(arguments: &[String]) -> Option<(&String, &[String])> {
    let (program, rest) = arguments.split_first()?;
    if !is_interpreter(program) {
        return Some((program, rest));
    }
    // Options of the interpreter precede the script.
    let at = rest
        .iter()
        .position(|argument| !argument.starts_with('-'))?;
    Some((&rest[at], &rest[at + 1..]))
}

fn has_word(words: &str, word: &str) -> bool {
    words
        .split(' ')
        .any(|known| known == word && !word.is_empty())
}

fn known(executable: Option<&Path>, program: &Path) -> Option<KnownAgent> {
    let by_name = |path: &Path| {
        let name = name_of(path)?;
        let is_name = |facts: &&ProgramFacts| facts.name == name || facts.aliases.contains(&name);
        FACTS.iter().find(is_name).map(|facts| facts.agent)
    };
    let in_package = |path: &Path| {
        let path = path.to_str()?;
        let is_inside = |package: &&str| {
            let inside = path.split_once(*package).map(|(_, inside)| inside);
            // Platform-specific packages append the name of the platform.
            inside.is_some_and(|inside| inside.starts_with(['/', '-']))
        };
        let is_in = |facts: &&ProgramFacts| facts.packages.iter().any(is_inside);
        FACTS.iter().find(is_in).map(|facts| facts.agent)
    };
    by_name(program)
        .or_else(|| in_package(program))
        .or_else(|| executable.and_then(|path| by_name(path).or_else(|| in_package(path))))
}

/// Returns true for the name or the path of an interpreter, such as `node` or `python3.13`.
pub(super) fn is_interpreter(program: &str) -> bool {
    let is_version = |c: char| c.is_ascii_digit() || c == '.';
    let name = name_of(Path::new(program));
    name.is_some_and(|name| INTERPRETERS.contains(&name.trim_end_matches(is_version)))
}

/// Returns the name of a program without its directory and the dash of a login shell.
pub(crate) fn program_name(program: &str) -> &str {
    let name = program.rsplit('/').next().unwrap_or(program);
    name.strip_prefix('-').unwrap_or(name)
}

/// Returns the name of a program without its directory, login dash and extension.
fn name_of(path: &Path) -> Option<&str> {
    let name = program_name(path.file_name()?.to_str()?);
    let kinds = [".exe", ".js", ".mjs", ".cjs", ".py"];
    let bare = kinds.iter().find_map(|kind| name.strip_suffix(kind));
    Some(bare.unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn recognised(executable: &str, line: &str) -> Option<String> {
        let arguments = shlex::split(line).unwrap();
        let executable = Some(Path::new(executable)).filter(|path| !path.as_os_str().is_empty());
        AgentProgram::recognise(executable, &arguments).map(|agent| agent.name().to_owned())
    }

    #[test]
    fn agents_are_known_by_program_script_or_package() {
        // Command lines and executables of real processes.
        for (executable, line, expected) in [
            (
                "/x/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
                "claude --permission-mode default",
                "claude",
            ),
            (
                "/root/.local/share/claude/versions/2.1.330",
                "claude",
                "claude",
            ),
            (
                "/root/.local/share/claude/versions/2.1.330",
                "worker --agent-id tests@team",
                "claude",
            ),
            (
                "/x/node",
                "node /x/node_modules/@anthropic-ai/claude-code/cli.js --resume",
                "claude",
            ),
            (
                "/x/codex",
                "/x/node_modules/@openai/codex-linux-x64/vendor/x86_64/bin/codex",
                "codex",
            ),
            ("/x/node", "node /x/node_modules/.bin/gemini", "gemini"),
            (
                "/x/node",
                "/x/bin/node --max-old-space-size=12052 /x/node_modules/.bin/gemini",
                "gemini",
            ),
            (
                "/x/node",
                "node --expose-gc /x/node_modules/@qwen-code/qwen-code/cli.js",
                "qwen",
            ),
            (
                "/x/node_modules/opencode-ai/bin/opencode.exe",
                "opencode",
                "opencode",
            ),
            (
                "/usr/bin/python3.11",
                "/x/venv/bin/python3 /x/venv/bin/aider --model m",
                "aider",
            ),
            (
                "/x/node_modules/@github/copilot-linux-x64/copilot",
                "/x/copilot",
                "copilot",
            ),
            (
                "/x/node_modules/@cline/cli-linux-x64/bin/cline",
                "cline -i --auto-approve false",
                "cline",
            ),
            ("/x/node", "node /x/node_modules/.bin/kilo", "kilo"),
            (
                "/x/node_modules/@kilocode/cli-linux-x64/bin/kilo",
                "/x/node_modules/@kilocode/cli-linux-x64/bin/kilo",
                "kilo",
            ),
            (
                "/x/python3.13/site-packages/vibe/_bin/vibe-rs",
                "/x/python3.13/site-packages/vibe/_bin/vibe-rs --trust --agent ask",
                "vibe",
            ),
            ("/usr/bin/python3.13", "'Kimi Code'", "kimi"),
            ("/usr/bin/python3.13", "vibe-app-server", "vibe"),
            (
                "/x/node",
                "node /x/node_modules/.bin/cn --config /x/config.yaml",
                "cn",
            ),
            (
                "/a/.local/share/cursor-agent/versions/2026.11.1/node",
                "/a/.local/share/cursor-agent/versions/2026.11.1/node /a/.local/share/cursor-agent/versions/2026.11.1/index.js",
                "cursor",
            ),
            ("", "codex resume --last", "codex"),
            ("", "claude 'fix the tests'", "claude"),
            ("", "codex -m exec", "codex"),
            ("", "claude agents --permission-mode plan", "claude"),
            ("", "claude attach b6b81a5a", "claude"),
            ("", "codex agents", "codex"),
            ("", "goose session", "goose"),
        ] {
            assert_eq!(
                recognised(executable, line).as_deref(),
                Some(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn other_programs_and_single_answers_are_not_agents_in_panes() {
        for line in [
            "vim claude.md",
            "grep -r codex .",
            "tail -f /home/a/.claude/projects/x.jsonl",
            "node server.js",
            "python3 -m http.server",
            "bash -c claude",
            "claude -p 'what is this'",
            "claude --print=x",
            "claude agents --json",
            "claude daemon run --origin transient",
            "codex exec 'do it'",
            "/x/codex app-server --listen unix://",
            "/x/codex app-server daemon pid-update-loop",
            "gemini -p hello",
            "opencode run hello",
            "opencode serve",
            "kilo run hello",
            "kimi --print -p hello",
            "vibe -p hello",
            "cn -p hello",
            "cline auth",
            "cline --json hello",
            "aider --message hi",
            "node",
            "node --version",
        ] {
            assert_eq!(recognised("", line), None, "{line}");
        }
    }

    #[test]
    fn views_of_sessions_have_no_session_of_their_own() {
        let shown = |line: &str| {
            let arguments = shlex::split(line).unwrap();
            let agent = AgentProgram::recognise(None, &arguments)?;
            agent.shown_sessions(&arguments)
        };
        assert_eq!(shown("claude agents --cwd /x"), Some(ShownSessions::All));
        let one = Some(ShownSessions::One("b6b81a5a".to_owned()));
        assert_eq!(shown("node /x/bin/claude attach b6b81a5a"), one);
        for line in [
            "claude",
            "claude 'list agents'",
            "claude --agent agents",
            "codex agents",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }

    #[test]
    fn each_agent_has_its_facts() {
        for (index, facts) in FACTS.iter().enumerate() {
            assert_eq!(facts.agent as usize, index);
            assert_eq!(KnownAgent::named(facts.agent.name()), Some(facts.agent));
        }
        assert_eq!(KnownAgent::Cursor as usize + 1, FACTS.len());
    }

    #[test]
    fn a_declared_agent_has_a_short_plain_name() {
        let declared = |name: &str| AgentProgram::declared(name);
        assert_eq!(
            declared("claude"),
            Some(AgentProgram::Known(KnownAgent::Claude))
        );
        assert_eq!(
            declared("a-2.b_c"),
            Some(AgentProgram::Other("a-2.b_c".into()))
        );
        let long = "x".repeat(41);
        for name in [
            "",
            "shell",
            "tmux",
            "-x",
            "a b",
            "a\u{1b}[1m",
            "é",
            "a\n",
            &long,
        ] {
            assert_eq!(declared(name), None, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_accepted(arguments in prop::collection::vec(".{0,20}", 0..6), exe in ".{0,20}") {
            let _ = AgentProgram::recognise(Some(Path::new(&exe)), &arguments);
        }
    }
}
