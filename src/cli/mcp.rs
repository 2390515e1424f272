//! `td-observe mcp` and `skill`: for agents that supervise agents, with a private observer if none runs.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use super::failure::Failure;
use super::observer::{self, PrivateObserver, TypedOwnObserver};
use super::options::{Options, WhichServer, own_place, socket_of};
use super::output;
use super::signals::Signals;
use crate::api::{FindObserver, Observer};
use crate::board::Place;
use crate::clock::Clock;
use crate::face::mcp::{McpServer, run as serve};
use crate::history::DataDir;
use crate::process::{ancestors, variable_of};
use crate::thread::lock;
use crate::tmux::Target;

/// The end of the help of `skill`.
pub(super) const SKILL_EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.claude/skills/td-observe
  td-observe skill > ~/.claude/skills/td-observe/SKILL.md
  td-observe skill >> AGENTS.md    for agents that have no skills";

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/mcp.txt").trim_end())]
pub(super) struct TypedMcp {
    /// Let the client type into panes
    #[arg(long)]
    pub allow_input: bool,
    /// Type only into this session, window or pane; repeat for several
    #[arg(long, value_name = "TARGET", requires = "allow_input")]
    pub only: Vec<String>,
    /// Tell Claude Code when a pane begins to need someone
    #[arg(long)]
    pub channel: bool,
    #[command(flatten)]
    pub own: TypedOwnObserver,
}

/// Prints the skill file.
pub(super) fn print_skill() -> Result<ExitCode, Failure> {
    output::print(include_str!("skill.md"))?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until the client closes the input, or a signal arrives.
pub(super) fn run(mut options: Options, typed: TypedMcp) -> Result<ExitCode, Failure> {
    for target in &typed.only {
        Target::parse(target).map_err(|error| usage!("mcp: --only {target:?}: {error}"))?;
    }
    let own = own_place().map_or_else(place_of_client, |(socket, pane)| {
        Some(Place {
            server: socket.to_string_lossy().into_owned(),
            pane,
        })
    });
    if let Some(place) = &own {
        use_server_of(place, &mut options);
    }
    if io::stdin().is_terminal() {
        message!(
            "mcp: this speaks MCP on standard input, for a client that starts it, such as: claude mcp add td-observe -- td-observe mcp"
        );
    }
    let data = options.home()?;
    DataDir::new(data.clone())
        .prepare()
        .map_err(|error| super::options::unusable(error, true))?;
    let signals = Signals::catch(|| {})?;
    let (options, only) = (Arc::new(options), typed.only.clone());
    let (allows_input, has_channel) = (typed.allow_input, typed.channel);
    let private = Arc::new(OwnObserver::default());
    if observer::running(&data)?.is_none() {
        private.start(Arc::clone(&options), typed.own)?;
    }
    let server = McpServer {
        find: finder(&private, data.clone()),
        data: DataDir::new(data),
        allows_input,
        only,
        own,
        has_channel,
        clock: Clock::system(),
    };
    let served = serve(server, &signals.first);
    let observed = private.end();
    served?;
    observed
}

/// The observer of this process, if none ran at its start.
#[derive(Default)]
struct OwnObserver {
    running: Mutex<Option<PrivateObserver>>,
    /// Set once it observes the panes that were there before.
    observes: OnceLock<()>,
}

impl OwnObserver {
    fn start(&self, options: Arc<Options>, typed: TypedOwnObserver) -> Result<(), Failure> {
        // Whether the client may type is decided by this server.
        let started = PrivateObserver::start(options, typed.start(false))?;
        *lock(&self.running) = Some(started);
        Ok(())
    }

    /// Finds the observer; `None` if there is none in this process.
    fn find(&self) -> Option<Result<Observer, String>> {
        let running = lock(&self.running);
        let own = running.as_ref()?;
        if own.has_ended() {
            return Some(Err("the observer has ended".to_owned()));
        }
        let found = own.finder()().ok_or_else(|| "the observer is starting".to_owned());
        drop(running);
        if let Ok(Observer::Here(context)) = &found {
            // The first call waits, and the others with it.
            self.observes.get_or_init(|| {
                let (servers, clock) = (&context.panes.servers, &context.clock);
                let never = crossbeam_channel::never();
                observer::wait_until_observing(servers, &context.feed, clock, &never);
            });
        }
        Some(found)
    }

    fn end(&self) -> Result<ExitCode, Failure> {
        let running = lock(&self.running).take();
        let ended = running.map(PrivateObserver::end).transpose();
        ended.map(|code| code.unwrap_or(ExitCode::SUCCESS))
    }
}

/// Returns the function that finds the observer anew for each call: it may have been started or ended since.
fn finder(private: &Arc<OwnObserver>, data: PathBuf) -> FindObserver {
    let private = Arc::clone(private);
    Arc::new(move || match private.find() {
        Some(found) => found,
        None => observer::find(&data),
    })
}

/// Returns the pane of the client, which may have left out the variables that name it: those with which one of the
/// processes began that have started this one.
fn place_of_client() -> Option<Place> {
    ancestors().into_iter().find_map(|pid| {
        let (tmux, pane) = (variable_of(pid, "TMUX")?, variable_of(pid, "TMUX_PANE")?);
        Some(Place {
            server: socket_of(&tmux).to_string_lossy().into_owned(),
            pane: pane.as_str().into(),
        })
    })
}

/// Observes the tmux server of the client, if no other is chosen.
fn use_server_of(place: &Place, options: &mut Options) {
    if options.server.chosen().is_none() && options.servers.len() <= 1 {
        options.server = WhichServer::Socket(place.server.clone().into());
        options.servers = vec![options.server.clone()];
    }
}
