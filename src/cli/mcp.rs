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
use crate::api::{Observer, STARTING};
use crate::board::Place;
use crate::clock::Clock;
use crate::face::mcp::{McpServer, run as serve};
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
    #[cfg(feature = "hosts")]
    #[command(flatten)]
    pub hosts: super::hosts::TypedHosts,
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
    // Its own variables may be those of another pane.
    let own = place_of_client().or_else(|| {
        let (socket, pane) = own_place()?;
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
    let (data, histories) = (options.home()?, options.data()?);
    histories
        .prepare()
        .map_err(|error| super::options::unusable(error, true))?;
    let signals = Signals::catch(|| {})?;
    let observers = Arc::new(Observers {
        options: Arc::new(options),
        typed: typed.own,
        data: data.clone(),
        own: Mutex::default(),
    });
    // The first call need not wait for it.
    if observer::running(&data)?.is_none() {
        observers.start(&mut lock(&observers.own))?;
    }
    let finder = Arc::clone(&observers);
    let server = McpServer {
        find: Arc::new(move || finder.find()),
        data: histories,
        allows_input: typed.allow_input,
        only: typed.only,
        own,
        has_channel: typed.channel,
        clock: Clock::system(),
    };
    let served = serve(server, &signals.first);
    let observed = observers.end();
    served?;
    observed
}

/// The observer of the data directory, or one of this process while there is none.
struct Observers {
    options: Arc<Options>,
    typed: TypedOwnObserver,
    data: PathBuf,
    own: Mutex<Option<OwnObserver>>,
}

/// The observer of this process.
struct OwnObserver {
    running: PrivateObserver,
    /// Set once it observes the panes that were there before.
    observes: Arc<OnceLock<()>>,
}

impl Observers {
    /// Finds the observer anew for each call: the user may have started or ended his.
    fn find(&self) -> Result<Observer, String> {
        let mut own = lock(&self.own);
        if let Ok(found) = observer::find(&self.data) {
            let replaced = own.take();
            drop(own);
            // It continues the runs of the one that ends.
            if let Some(Err(failure)) = replaced.map(|own| own.running.end()) {
                log::warn!("{}", failure.text());
            }
            return Ok(found);
        }
        if let Some(ended) = own.take_if(|own| own.running.has_ended()) {
            let why = ended.running.end().err();
            let why = why.map_or_else(String::new, |failure| format!(": {}", failure.text()));
            return Err(format!("the observer has ended{why}"));
        }
        if own.is_none() {
            let started = self.start(&mut own);
            started.map_err(|failure| failure.text().to_owned())?;
        }
        let Some((found, observes)) = own.as_ref().and_then(OwnObserver::found) else {
            return Err(STARTING.to_owned());
        };
        drop(own);
        if let Observer::Here(context) = &found {
            // The first call waits, and the others with it.
            observes.get_or_init(|| {
                let (servers, clock) = (&context.panes.servers, &context.clock);
                let never = crossbeam_channel::never();
                observer::wait_until_observing(servers, &context.feed, clock, &never);
            });
        }
        Ok(found)
    }

    fn start(&self, own: &mut Option<OwnObserver>) -> Result<(), Failure> {
        // Whether the client may type is decided by this server.
        let start = self.typed.clone().start(false);
        *own = Some(OwnObserver {
            running: PrivateObserver::start(Arc::clone(&self.options), start)?,
            observes: Arc::default(),
        });
        Ok(())
    }

    fn end(&self) -> Result<ExitCode, Failure> {
        let own = lock(&self.own).take();
        let ended = own.map(|own| own.running.end()).transpose();
        ended.map(|code| code.unwrap_or(ExitCode::SUCCESS))
    }
}

impl OwnObserver {
    fn found(&self) -> Option<(Observer, Arc<OnceLock<()>>)> {
        let found = self.running.finder()()?;
        Some((found, Arc::clone(&self.observes)))
    }
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
