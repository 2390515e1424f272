//! The observer itself: an engine that observes tmux servers and agents, the feed and the API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, select_biased};
use serde_json::json;

use super::super::{checks, live, options, output};
use super::announcement::{Announcement, OBSERVER};
use super::args::TypedStart;
use crate::agent::StateRules;
use crate::api::{
    ApiContext, ObservedServer, Panes, Routes, Server as ApiServer, Slots, socket_path,
};
use crate::cli::announced::ProcessLock;
use crate::cli::checks::{check_socket, check_tmux};
use crate::cli::failure::Failure;
use crate::cli::options::{Options, SourceKind};
use crate::cli::signals::Signals;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::event::PaneId;
use crate::feed::{Feed, Others, board_of_history, summary_of};
use crate::history::DataDir;
#[cfg(feature = "notify")]
use crate::notify::{Notifier, Settings};
use crate::observe::{AgentWatch, Watch};
use crate::thread::Handle;
use crate::tmux::{Server, self_showing};

/// The interval at which summaries of runs are stored.
const SUMMARIES: Duration = Duration::from_secs(2);

/// The time that clients of the API have at the end to read their responses.
const API_END: Duration = Duration::from_secs(1);

/// The time to wait at the start until all existing panes are observed.
const READY: Duration = Duration::from_secs(5);

/// Observes until a signal arrives.
pub(super) fn run(options: &Options, typed: &TypedStart) -> Result<ExitCode, Failure> {
    if typed.detached {
        // An error means that this process already leads a session.
        let _ = rustix::process::setsid();
    }
    let signals = Signals::catch(|| {})?;
    let data = options.home()?;
    let socket = socket_path(&data, std::env::var_os("XDG_RUNTIME_DIR"));
    observe(options, typed, Audience::All(socket), &signals.first)
}

/// Those who read what the observer observes.
pub(super) enum Audience {
    /// All clients of the data directory's observer, through an API at this socket.
    All(PathBuf),
    /// The face of this process, which finds the observer here. Another observer may run at the same time,
    /// because each run has a lock.
    #[cfg_attr(
        not(any(feature = "mcp", feature = "tui", feature = "serve")),
        expect(
            dead_code,
            reason = "the MCP server, the terminal UI and the page read it"
        )
    )]
    Face(Arc<OnceLock<ApiContext>>),
}

/// Observes until `ended` has a message or is closed.
pub(super) fn observe(
    options: &Options,
    typed: &TypedStart,
    audience: Audience,
    ended: &Receiver<i32>,
) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let home = options.home()?;
    let (builder, rules) = options::builder(options, &typed.keeping, &clock)?;
    let servers = servers(options, &clock)?;
    let agents = agents(&typed.agents)?;
    if typed.detached {
        // Leaves the directory, so that its file system can be unmounted: all paths are absolute by now, or
        // have been read. A failure is harmless.
        let _ = rustix::process::chdir("/");
    }
    let states = StateRules::builtin();
    let engine = builder
        .start()
        .map_err(|error| options::unusable(error, true))?;
    let lock = match audience {
        Audience::All(_) => Some(OBSERVER.take(&home).map_err(|error| locked(&error))?),
        Audience::Face(_) => None,
    };
    let data = DataDir::new(home);
    let (board, numbers) = board_of_history(&data, states.clone(), &clock)?;
    let events = engine.subscribe_with(live::everything());
    let (feed, feed_thread) = Feed::start(events, board, &numbers, data.clone(), clock.clone())?;
    let mut observer = Observer {
        engine,
        lock,
        data,
        feed,
        feed_thread,
        others: None,
        #[cfg(feature = "notify")]
        notifier: None,
        api: None,
        clock,
    };
    // From here on, runs may be open, so every failure must end them in order.
    let panes = Panes {
        servers,
        rules,
        allows_input: typed.allow_input,
    };
    let given = (typed.given(), options.config.clone());
    let observed = observer.observe(
        &panes,
        agents,
        (&states, typed.source),
        (audience, given),
        #[cfg(feature = "notify")]
        &options.notifications,
        ended,
    );
    let code = observer.end();
    observed.map(|()| code)
}

/// The options of the start, with their values, and the file of the configuration.
type Given = (BTreeMap<String, String>, Option<PathBuf>);

/// The parts of a running observer.
struct Observer {
    engine: Engine,
    /// `None` for an observer of one face.
    lock: Option<ProcessLock>,
    data: DataDir,
    feed: Feed,
    feed_thread: Handle<()>,
    /// `None` until it is started.
    others: Option<Others>,
    /// `None` until it is started, and without rules.
    #[cfg(feature = "notify")]
    notifier: Option<Notifier>,
    /// `None` until it is started.
    api: Option<ApiServer>,
    clock: Clock,
}

impl Observer {
    /// Starts to observe, announces it, and returns when `ended` has a message.
    fn observe(
        &mut self,
        panes: &Panes,
        agents: Option<AgentWatch>,
        (states, source): (&StateRules, SourceKind),
        (audience, given): (Audience, Given),
        #[cfg(feature = "notify")] notifications: &Settings,
        ended: &Receiver<i32>,
    ) -> Result<(), Failure> {
        checks::raise_descriptors();
        let servers = &panes.servers;
        for server in servers {
            let watch = Watch::new(server.server.clone())
                .states(states.clone())
                .views();
            self.engine.watch(source.applied_to(watch)?)?;
        }
        if let Some(agents) = agents {
            // The job ends with the engine.
            drop(self.engine.watch_agents(agents)?);
        }
        self.engine.watch_sessions(|name| std::env::var_os(name))?;
        let sockets: Vec<PathBuf> = servers.iter().map(|server| server.socket.clone()).collect();
        let others = Others::start(self.feed.clone(), &sockets)?;
        self.others = Some(others);
        let context = ApiContext {
            feed: self.feed.clone(),
            bus: Arc::clone(self.engine.bus()),
            clock: self.clock.clone(),
            panes: panes.clone(),
            sessions: self.engine.sessions().clone(),
            log_troubles: self.engine.log_troubles(),
            runs: Some(self.engine.runs()),
        };
        #[cfg(feature = "notify")]
        self.notify(notifications, &context)?;
        match audience {
            Audience::All(socket) => self.serve(context, (socket, sockets), given, ended)?,
            // The slot is empty: each face has its own observer.
            Audience::Face(slot) => drop(slot.set(context)),
        }
        self.until_ended(ended)
    }

    /// Starts to notify, if there are rules.
    #[cfg(feature = "notify")]
    fn notify(&mut self, settings: &Settings, context: &ApiContext) -> Result<(), Failure> {
        let notifier = Notifier::start(settings, context, true);
        self.notifier = notifier.map_err(|error| options::unusable(error, true))?;
        Ok(())
    }

    /// Serves the API, and announces it once all panes are observed.
    fn serve(
        &mut self,
        context: ApiContext,
        (socket, servers): (PathBuf, Vec<PathBuf>),
        (given, config): Given,
        ended: &Receiver<i32>,
    ) -> Result<(), Failure> {
        let panes = context.panes.clone();
        let announcement = Announcement {
            pid: std::process::id(),
            socket,
            data_dir: self.data.path().to_owned(),
            servers,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.clock.wall(),
            allow_input: panes.allows_input,
            options: given,
            config,
        };
        let routes = Routes {
            context,
            slots: Slots::default(),
            about: json!(announcement),
        };
        let api = ApiServer::start(&announcement.socket, Arc::new(routes), &self.clock)?;
        self.api = Some(api);
        let Some(lock) = &self.lock else {
            return Ok(());
        };
        wait_until_observing(&panes.servers, &self.feed, &self.clock, ended);
        lock.announce(&announcement)?;
        super::service::notify("READY=1");
        if let Err(error) = output::print(&announcement.line("observing")) {
            // The terminal or the process that started the observer may be gone, but the observer
            // continues.
            log::warn!("{}", error.text());
        }
        Ok(())
    }

    /// Stores summaries until `ended` has a message, or the data directory is gone.
    fn until_ended(&self, ended: &Receiver<i32>) -> Result<(), Failure> {
        loop {
            let due = self.clock.after(SUMMARIES);
            select_biased! {
                recv(ended) -> _ => return Ok(()),
                recv(due) -> _ => {}
            }
            if !self.is_in_place() {
                return Err(failure!(
                    "the data directory {} was removed or replaced, so the observer ends; start another with td-observe start",
                    self.data.path().display()
                ));
            }
            self.summarize();
        }
    }

    /// Returns true if the data directory still contains the lock, or there is no lock.
    fn is_in_place(&self) -> bool {
        self.lock.as_ref().is_none_or(ProcessLock::is_in_place)
    }

    fn summarize(&self) {
        for summary in self.feed.take_summaries() {
            let about = summary_of(&self.data, &summary);
            self.engine.add_metadata(&summary.execution_id, about);
        }
    }

    /// Ends all runs, then the API; returns the exit code.
    fn end(self) -> ExitCode {
        if let Some(lock) = &self.lock {
            super::service::notify("STOPPING=1");
            lock.withdraw();
        }
        if self.is_in_place() {
            self.summarize();
        }
        // It ends before the runs do, which the next observer may take over at once.
        #[cfg(feature = "notify")]
        if let Some(notifier) = self.notifier {
            notifier.stop();
        }
        let others = self.others.map_or(Ok(()), Others::stop);
        let ended = self.engine.shutdown();
        if let Some(api) = self.api {
            api.stop(&self.clock, API_END);
        }
        for panicked in [others, self.feed_thread.join()] {
            if let Err(panicked) = panicked {
                output::print_message(&panicked.to_string());
            }
        }
        drop(self.lock);
        live::code(live::report_problems(ended))
    }
}

fn servers(options: &Options, clock: &Clock) -> Result<Vec<ObservedServer>, Failure> {
    let mut servers = Vec::new();
    for chosen in &options.servers {
        let socket = chosen.socket_path().unwrap_or_default();
        // The observer must not follow a later change of the server that `TMUX` names.
        let server = if socket.as_os_str().is_empty() {
            chosen.server()
        } else {
            Server::socket(&socket)
        };
        if servers.is_empty() {
            check_tmux(&server, clock)?;
        }
        check_socket(&server, clock)?;
        servers.push(ObservedServer { server, socket });
    }
    Ok(servers)
}

fn agents(directories: &[PathBuf]) -> Result<Option<AgentWatch>, Failure> {
    if directories.is_empty() {
        return Ok(None);
    }
    let mut watch = AgentWatch::new().follow();
    for directory in directories {
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
        watch = watch
            .path(&absolute)
            .map_err(|error| usage!("--agents: {error}"))?;
    }
    Ok(Some(watch))
}

fn locked(error: &crate::Error) -> Failure {
    if error.is_locked() {
        failure!("{error}; td-observe status shows its board, td-observe stop ends it")
    } else {
        failure!("{error:?}")
    }
}

/// Each server has a pane %0, so rows also name the socket.
const LISTED: &str = "#{pane_dead} #{pane_id} #{pane_pid} #{socket_path}";

/// Returns a pane, its process and its server; `None` for a dead one, whose row has ended and does not begin again.
fn listed_pane(line: &str) -> Option<(PaneId, u32, String)> {
    let (pane, rest) = line.strip_prefix("0 ")?.split_once(' ')?;
    let (pid, socket) = rest.split_once(' ')?;
    Some((PaneId::from(pane), pid.parse().ok()?, socket.to_owned()))
}

/// Waits until all existing panes are on the board. Does not wait for absent servers.
pub(in crate::cli) fn wait_until_observing(
    servers: &[ObservedServer],
    feed: &Feed,
    clock: &Clock,
    ended: &Receiver<i32>,
) {
    let listed = servers.iter().filter_map(|observed| {
        let server = observed.server.clone().with_timeout(Duration::from_secs(1));
        let panes = server.run(["list-panes", "-a", "-F", LISTED], clock).ok()?;
        let panes = panes.lines().filter_map(listed_pane);
        let panes: Vec<(PaneId, u32, String)> = panes.collect();
        let pids = panes.iter().map(|(pane, pid, _)| (pane.clone(), *pid));
        let left_out = self_showing(pids).unwrap_or_default();
        let panes = panes.into_iter();
        Some(panes.filter(move |(pane, ..)| !left_out.contains(pane)))
    });
    let listed: Vec<_> = listed.flatten().collect();
    let deadline = clock.now() + READY;
    let mut version = None;
    while let Some(view) = feed.board_after(version, deadline) {
        version = Some(view.version);
        let is_observed = |(pane, _, socket): &(PaneId, u32, String)| {
            let mut rows = view.rows.iter().filter(|row| row.is_observed());
            rows.any(|row| {
                row.pane.as_ref() == Some(pane)
                    && row.server.as_ref().is_none_or(|server| server == socket)
            })
        };
        if listed.iter().all(is_observed) || !ended.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_does_not_wait_for_dead_panes() {
        let alive = ("%0".into(), 7, "/tmp/a b".to_owned());
        assert_eq!(listed_pane("0 %0 7 /tmp/a b"), Some(alive));
        assert_eq!(listed_pane("1 %1 8 /tmp/a b"), None);
    }
}
