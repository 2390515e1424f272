//! What may be typed: the first of two stages; the second is each subcommand's `Config`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

use super::agent_hooks::TypedHooks;
use super::duration::{parse_duration, parse_rhythm, parse_share};
use super::history_args::{TypedExport, TypedKeeping, TypedLog, TypedReplay, TypedRuns};
use super::loop_args::TypedLoop;
use super::on_state::OnState;
use crate::agent::Format;
use crate::tmux::PollSchedule;

const EXAMPLES: &str = "\
Examples:
  td-observe demo                     see it work, on a tmux server of its own
  td-observe watch                    all sessions of your tmux server, new ones included
  td-observe watch build agent:1      one session, and one window of another
  td-observe watch --json | jq .      for programs: one event a line
  td-observe run make test            a command, its output as it comes, its exit code
  td-observe loop --task 'Fix the tests' --agent ./agent --check 'make test'
                                      an agent, again and again, until the check passes
  td-observe agents tasks/            when each background agent is done
  td-observe runs                     what was observed before
  td-observe log build --follow       what the session build has printed, and what it prints
  td-observe replay build --speed 4   the same as it happened, four times as fast

What is seen is kept in ~/.taskdaemon/runs (see --data-dir and --no-log).
Exit codes: 0 done or stopped, 1 failed, 2 wrong usage, 127 tmux is missing, 130 interrupted twice;
run has the command's own.";

/// Shows what tmux panes are doing right now, and keeps what they did.
#[derive(Debug, Parser)]
#[command(name = "td-observe", version, after_help = EXAMPLES, max_term_width = 100)]
pub(super) struct Args {
    #[command(flatten)]
    pub options: TypedOptions,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every subcommand has; they may stand before or after it.
#[derive(Debug, clap::Args)]
pub(super) struct TypedOptions {
    /// The tmux server of this name, as tmux -L
    #[arg(short = 'L', value_name = "NAME", global = true)]
    pub server_name: Option<OsString>,
    /// The tmux server at this socket, as tmux -S
    #[arg(short = 'S', value_name = "PATH", global = true)]
    pub server_socket: Option<PathBuf>,
    /// Where runs are kept [default: $TD_DATA_DIR, else ~/.taskdaemon]
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// Keep nothing
    #[arg(long, global = true)]
    pub no_log: bool,
    /// Print events as JSON, one a line, and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        global = true
    )]
    pub color: When,
    /// Print no events
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more; twice: even more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// See it work: a private tmux server with a build, a progress bar and an agent
    Demo(TypedDemo),
    /// Show the lines of tmux sessions or panes while they are printed
    Watch(TypedWatch),
    /// Run a command, show what it prints while it prints it, and exit as it does
    Run(TypedRun),
    /// The agentic loop: an agent works until the check passes
    Loop(Box<TypedLoop>),
    /// Tell when background agents are done, by the files that they write
    Agents(TypedAgents),
    /// How the screens of agents are read: list the rules, print them, try them on a capture
    States(TypedStates),
    /// Wait until a pane shows a line, ends or falls silent
    Wait(TypedWait),
    /// List the history: what was observed, its state and its size; prune it
    Runs(TypedRuns),
    /// Print what a run has shown, and follow what it shows
    Log(TypedLog),
    /// Show a run as it happened, at its own pace or another
    Replay(TypedReplay),
    /// Turn a run into a recording for terminals, or into text
    Export(TypedExport),
    /// The settings that let an agent report its state
    Hooks(TypedHooks),
    /// What tmux pipes a pane into; started by watch
    #[command(hide = true)]
    Drain(TypedDrain),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The tmux server, its sockets and the log are in a directory of their own and are removed at the end.
With --data-dir the log is kept there.")]
pub(super) struct TypedDemo {
    /// Ends after so many seconds at the latest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
}

const WATCH_EXAMPLES: &str = "\
Examples:
  td-observe watch                     everything, until Ctrl-C
  td-observe watch build               until the session build has ended
  td-observe watch build:1.0 %7        one pane of a session, and the pane %7
  td-observe watch -L work --lines 20  another server; the last 20 lines of each pane first
  td-observe watch --json build | jq -j '.event.chunk // empty'
  td-observe watch agent --mode ai --on-turn 'notify-send \"$TD_SESSION\" \"$TD_SUMMARY\"'
  td-observe watch --on-state 'waiting=notify-send \"$TD_SESSION waits\"'
  td-observe watch build --on-end 'echo $TD_SESSION ended: ${TD_EXIT_STATUS:-?}'

Names are exact: job-1 never means job-10. A target that is not there yet is waited for. Lines
marked ~ are lines shown before that read differently now. A line that is not finished, such as a
prompt, is shown last on a terminal; elsewhere it is shown when its pane ends with it.

An agent in a pane (Claude Code, Codex, Gemini, Qwen, aider) is shown by its conversation: prompts,
answers, tools with their results, and what it asks you. That and its state are read from its own
files; where it has none, its title and its screen tell the state: see td-observe states. -v shows
working and idle, too. --screen shows its rows as well, --no-conversation leaves its files alone.

Commands given with --on-turn, --on-state and --on-end get the event as JSON on standard input, and
what it says in TD_EVENT (its type), TD_EXECUTION_ID, TD_SESSION, TD_PANE, TD_MARKER, TD_SUMMARY,
TD_STATE, TD_AGENT, TD_ASKS (what it asks you), TD_SOURCE, TD_EVIDENCE, TD_REASON and TD_EXIT_STATUS, as far as it says it. Four run at the same time, begun in order. What
they print is shown on standard error. An inferred end has the evidence inferred and no marker; a
marker that comes later is told all the same. A program whose pane is kept (remain-on-exit) ends
first, and its session when it is killed: two ends.";

#[derive(Debug, clap::Args)]
#[command(after_help = WATCH_EXAMPLES)]
pub(super) struct TypedWatch {
    /// session, session:window, session:window.pane or %pane; none: all, new ones included
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// How often to poll panes that are not streamed: a fixed time as 200ms, or two: sooner where much
    /// is printed, later where nothing is
    #[arg(long, value_name = "TIME[..TIME]", default_value = "20ms..1s", value_parser = parse_rhythm)]
    pub interval: PollSchedule,
    /// How much of the tmux server's time looks may take, unless the interval is fixed
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = parse_share)]
    pub budget: f64,
    /// How to observe: auto and stream: tmux pipes every byte of a pane to td-observe, so that nothing
    /// is missed and lines come within a millisecond; a pane that another program pipes is polled.
    /// poll: touch nothing; a program that prints and ends at once loses its last lines
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub source: SourceKind,
    /// Keep every byte of the panes with its time, too: raw/PANE.cast in the run's directory, which
    /// export --format cast prefers and asciinema plays. Colours stay, secrets are taken out. Not
    /// with --source poll
    #[arg(long)]
    pub raw: bool,
    /// What to make of the output: human; or ai: say where an agent's turn ends, then let its pane
    /// rest
    #[arg(long, value_name = "MODE", value_enum, default_value = "human")]
    pub mode: Mode,
    /// With --mode ai: a turn ends where this stands alone on its line; several: any of them
    /// [default: "[Output Complete]"]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub marker: Vec<String>,
    /// With --mode ai: after so long a silence a turn is taken to be over without its marker
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub infer_after: Option<Duration>,
    /// Run this with sh -c at the end of each turn: of an agent whose conversation is read, or, with
    /// --mode ai, where its marker stands; the event is on its standard input
    #[arg(long, value_name = "CMD")]
    pub on_turn: Option<String>,
    /// Run this with sh -c when a session, or the program of one of its panes, has ended
    #[arg(long, value_name = "CMD")]
    pub on_end: Option<String>,
    /// Run this with sh -c when the agent of a pane comes into a state: working, waiting, idle, done,
    /// error, limited or any; several: each of them. The state that is found at the start counts
    #[arg(long, value_name = "STATE=CMD", value_parser = OnState::parse)]
    pub on_state: Vec<OnState>,
    #[command(flatten)]
    pub reading: TypedReading,
    /// How long such a command may take; then it is killed
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    pub on_timeout: Duration,
    /// Show the last N lines of what stands on each pane at the start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub lines: usize,
    /// One run for everything, under this name
    #[arg(long, value_name = "ID")]
    pub execution_id: Option<String>,
    /// Watch the pane of this program, too, and panes that run td-observe
    #[arg(long)]
    pub include_self: bool,
    /// Show the rows of an agent's screen, too, whose conversation is shown
    #[arg(long)]
    pub screen: bool,
    /// Leave the files of agents alone: their screens, titles and notifications tell their states
    #[arg(long)]
    pub no_conversation: bool,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}

const RUN_EXAMPLES: &str = "\
Examples:
  td-observe run make test                   its output as it comes, kept as a run; its exit code
  td-observe run --timeout 10m -- ./check -v  ended after ten minutes, with its whole group: 124
  td-observe run --pty cargo build           with a terminal of its own: colours, progress bars
  td-observe run --stdin sudo apt upgrade    the command gets your terminal, and asks for itself
  td-observe run --as claude -- claude -p --verbose --output-format stream-json 'fix the tests'
                                             what an agent says and does, as events
  td-observe run --json make | jq -j '.event.text // empty'
  td-observe log make                        what the last make printed

Options of td-observe stand before the command. Standard error is marked [stderr]. The first Ctrl-C
is passed on to the command's group, which is killed when it has not ended after --grace; the
second one ends everything at once.

Exit codes: the command's own; 128 and the signal that ended it; 124 timeout; 126 the command cannot
be started; 127 it is missing; 2 wrong usage.";

#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(super) struct TypedRun {
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
    /// Ends the command, with its whole group, after this time: exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How long it may take to end after TERM; then it is killed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,
    /// What its standard output is: text, or the records of an agent: claude, codex, gemini,
    /// opencode, sse, json; auto finds out. Records become events: prompts, tokens, tools, turns; they are not shown
    /// raw. Lines that are no records are shown as they are
    #[arg(long = "as", value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// The name of the run [default: PROGRAM@SECONDS]
    #[arg(long, value_name = "ID")]
    pub execution_id: Option<String>,
    /// Give it a terminal of its own, as large as yours: it keeps its colours, and both its outputs
    /// are one
    #[arg(long)]
    pub pty: bool,
    /// Let it read what td-observe reads; on a terminal it gets the keys, Ctrl-C included. Together
    /// with --pty it has the screen to itself
    #[arg(long)]
    pub stdin: bool,
    /// Show and keep so many lines at most; a warning says where it is cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_lines: Option<u64>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}

const AGENTS_EXAMPLES: &str = "\
Examples:
  td-observe agents                              all sessions of yours that live, as they go on
  td-observe agents ~/.claude/projects --follow  all that Claude Code has ever had, and what comes
  td-observe agents /tmp/claude-1000/*/*/tasks   the tasks of Claude Code that run in the background
  td-observe agents a.jsonl b.jsonl --poll 1s    two transcripts; what is not there yet is waited for
  td-observe agents 'out/agent-*.jsonl'          a pattern: new files are found, too
  td-observe agents tasks/ --json | jq -r '.event | select(.result) | .agent_id + \": \" + .result'

Without arguments, the homes of all agents that are known are watched until Ctrl-C: ~/.claude/projects
(and $CLAUDE_CONFIG_DIR), ~/.codex/sessions ($CODEX_HOME), ~/.gemini/tmp/*/chats and
~/.qwen/projects/*/chats, with their sub-agents. There a session counts that was written to in the last
10 minutes, and each that goes on later. A session with a person goes on after its first end: each turn
that ends is a TurnCompleted, the first one before the AgentCompleted.

Of a directory, and of all below it, *.jsonl and *.output are agents' files. What an agent wrote says whether it is done:
the records of Claude Code, Codex and Gemini, and of others a stop_reason end_turn or a type result.
Where nothing says so, a file that was not changed for --stable is taken for an end, and the evidence
begins with inferred; never while a tool or a background task is under way. What may still follow an
end is waited for: what hooks and goals say, the rest of a record, the next prompt after a stop.
Files that are deleted, replaced, cut, compressed or unreadable give one warning, and are looked at
all the same; in directories and patterns, what is no file is passed over.

Exit codes: 0 all have completed, or Ctrl-C; 1 one has failed; 2 wrong usage.";

#[derive(Debug, clap::Args)]
#[command(after_help = AGENTS_EXAMPLES)]
pub(super) struct TypedAgents {
    /// Files, directories, or patterns with * and ? in their last part [default: the homes of all known
    /// agents]
    #[arg(value_name = "FILE|DIR|GLOB")]
    pub places: Vec<OsString>,
    /// Go on when all have ended, until Ctrl-C
    #[arg(long)]
    pub follow: bool,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub poll: Duration,
    /// How long a file must be unchanged where its records do not say
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub stable: Duration,
    /// The name of the run [default: agents@SECONDS]
    #[arg(long, value_name = "ID")]
    pub execution_id: Option<String>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}

const WAIT_EXAMPLES: &str = "\
Examples:
  td-observe wait build --text 'BUILD SUCCESS' --stop '^(ERROR|FAILED)' --timeout 10m
  td-observe wait %7 --regex 'listening on port \\d+'
  td-observe wait agent --turn --timeout 30m  the agent says [Output Complete], alone on a line
  td-observe wait agent --idle 5s             nothing new for five seconds
  td-observe wait build --exit                its programs have ended
  td-observe wait build --channel done        tmux wait-for -S done, as a command can do at its end

What stands on the panes at the beginning does not match, nor does the echo of what is typed at a
prompt, as far as that can be told: see README. The line that was found is printed.

With --turn a marker may have ⏺, ●, │ and other edges of boxes around it, but no other text on its
line, which must have ended. --json prints one object: outcome (found, stopped, ended, timed_out, lost,
interrupted), condition, pane, line, text, needle, exit_status as far as they are known, ts,
elapsed_ms, lost_lines and last_lines.

Exit codes: 0 found; 1 a stop came first, the target ended, or (--exit) its program is known to have
failed; 2 wrong usage, or there is no such target; 3 the time was up, but lines were lost on the way;
124 the time was up; 130 Ctrl-C.";

#[derive(Debug, clap::Args)]
#[command(after_help = WAIT_EXAMPLES)]
pub(super) struct TypedWait {
    /// session, session:window, session:window.pane or %pane
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// For a line with this text; several: any of them
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Vec<String>,
    /// For a line that matches; several: any of them
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub regex: Vec<String>,
    /// For the end of an agent's turn
    #[arg(long)]
    pub turn: bool,
    /// With --turn: it ends where this stands alone on its line; several: any of them
    /// [default: "[Output Complete]"]
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        requires = "turn"
    )]
    pub marker: Vec<String>,
    /// For the end of the target: all its panes are gone, or their programs have ended
    #[arg(long)]
    pub exit: bool,
    /// For so long a time without anything new
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle: Option<Duration>,
    /// For tmux wait-for -S NAME
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// A line that matches ends the wait: exit code 1; several: any of them
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// How long at most [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_duration)]
    pub interval: Duration,
    /// What stands on the screen already counts, too, for lines as for turns
    #[arg(long)]
    pub include_existing: bool,
}

/// How agents' screens are read.
#[derive(Debug, clap::Args)]
pub(super) struct TypedReading {
    /// How the screens of agents are read: a file of rules, or a directory of them; several: the
    /// last one for an agent counts [default: states/ in the data directory, if there is one]
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "no_states")]
    pub states: Vec<PathBuf>,
    /// Do not read them: no AgentState
    #[arg(long, conflicts_with = "on_state")]
    pub no_states: bool,
}

const STATES_EXAMPLES: &str = "\
Examples:
  td-observe states                               which agents are known, and by whose rules
  td-observe states --show claude > ~/.taskdaemon/states/claude.toml
                                                  rules to begin with: yours stand in their place
  tmux capture-pane -p -t agent | td-observe states --try -
                                                  what they say of a screen, and why
  td-observe watch --states my-agent.toml         watch goes by them

A rule says in which place of the screen a text must stand: the input box, the rows above and below
it, the last message, the foot of the screen. The comment at the top of claude.toml tells the form.
States: working, waiting (for a human), idle, done, error, limited (by a usage limit). What only
follows from what is shown is marked as inferred.

Exit codes: 0 done; 1 --try recognises nothing; 2 wrong usage.";

#[derive(Debug, clap::Args)]
#[command(after_help = STATES_EXAMPLES)]
pub(super) struct TypedStates {
    /// A file of rules, or a directory of them; several: the last one for an agent counts
    /// [default: states/ in the data directory, if there is one]
    #[arg(long, value_name = "FILE|DIR")]
    pub states: Vec<PathBuf>,
    /// Print the rules of this agent
    #[arg(long, value_name = "AGENT", conflicts_with = "capture")]
    pub show: Option<String>,
    /// Say what the rules make of a capture; -: of standard input
    #[arg(long = "try", value_name = "FILE")]
    pub capture: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Human,
    Ai,
}

/// How panes are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SourceKind {
    /// Those whose pipe is free are streamed, all others are polled.
    Auto,
    /// They are polled.
    Poll,
    /// The same as auto: what cannot be streamed is polled.
    Stream,
}

/// What [`crate::tmux::drain`] is told.
#[derive(Debug, clap::Args)]
pub(super) struct TypedDrain {
    pub address: String,
    pub token: String,
}
#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn options_stand_where_they_like() {
        for typed in [
            ["td-observe", "--json", "-L", "w", "watch", "job", "-v"],
            ["td-observe", "watch", "--json", "job", "-v", "-L", "w"],
            ["td-observe", "-v", "watch", "-L", "w", "job", "--json"],
        ] {
            let args = Args::try_parse_from(typed).unwrap();
            assert!(args.options.json && args.options.verbose == 1, "{args:?}");
            assert_eq!(args.options.server_name.as_deref(), Some("w".as_ref()));
        }
    }
}
