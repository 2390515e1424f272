//! `td-observe serve`: the board as a web page, and the API over TCP, with a private observer if none runs.

use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueHint;
use crossbeam_channel::{never, select_biased};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::announced::{Announced, ProcessLock};
use super::failure::Failure;
use super::observer::{self, PrivateObserver, TypedOwnObserver, TypedStart};
use super::options::Options;
use super::output;
use super::private_file::{private_line, replace};
use super::signals::Signals;
use crate::api::{FindObserver, Gate, Observer, PublicUrl, STARTING, Server, Slots, Token};
use crate::child::{DetachedStart, start_detached};
use crate::clock::Clock;
use crate::face::page::{PageData, Site};
use crate::history::DataDir;

/// The address without `--listen`.
const ADDRESS: &str = "127.0.0.1:7878";

/// The time that clients have at the end to read their responses.
const END: Duration = Duration::from_secs(1);

/// The interval at which the end of a private observer is noticed.
const CHECK: Duration = Duration::from_millis(200);

/// The exit code of `--url` if no server runs.
const UNSERVED: u8 = 3;

/// The server of a data directory.
const SERVER: Announced = Announced {
    name: "serve",
    runs_already: "a page is served already for",
};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/serve.txt").trim_end())]
pub(super) struct TypedServe {
    /// The address to listen at; another one than this machine's own needs --token-file, too
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    pub listen: String,
    /// Let the page and clients of the API type into panes
    #[arg(long)]
    pub allow_input: bool,
    /// Open the page in a browser
    #[arg(long)]
    pub open: bool,
    /// Print the link as a QR code on standard error, too
    #[arg(long)]
    pub qr: bool,
    /// Print the link of the server that runs, and end
    #[arg(long, conflicts_with_all = ["listen", "allow_input", "new_token", "token_file", "public_url"])]
    pub url: bool,
    /// Replace the token, so that older links no longer work
    #[arg(long, conflicts_with = "token_file")]
    pub new_token: bool,
    /// Use the token in this file, instead of the one that is kept in the data directory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// The address of a proxy with TLS in front, https://…, which the link then has
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    #[command(flatten)]
    pub own: TypedOwnObserver,
    #[cfg(feature = "hosts")]
    #[command(flatten)]
    pub hosts: super::hosts::TypedHosts,
}

/// What the link of a running server consists of. The token stays in its file.
#[derive(Debug, Serialize, Deserialize)]
struct Served {
    pid: u32,
    /// The address that it listens at.
    address: SocketAddr,
    /// The address of the page, without the token.
    url: String,
    token_file: PathBuf,
}

fn link(url: &str, token: &Token) -> String {
    format!("{url}#token={}", token.as_str())
}

/// Serves until a signal arrives.
pub(super) fn run(options: Options, typed: TypedServe) -> Result<ExitCode, Failure> {
    // The link and its token are those of this host.
    let (home, data) = (options.own_home()?, options.home()?);
    if typed.url {
        return print_url(&home, &typed);
    }
    let public = typed.public_url.as_deref().map(|url| {
        PublicUrl::parse(url).map_err(|why| usage!("serve: --public-url {url:?}: {why}"))
    });
    let public = public.transpose()?;
    let addresses = addresses(&typed.listen)?;
    let is_open = addresses.iter().any(|address| !address.ip().is_loopback());
    if is_open && typed.token_file.is_none() {
        return Err(usage!(
            "serve: other machines reach {}: give --token-file FILE as well, or listen at {ADDRESS} behind a tunnel \
             or a proxy, see td-observe help page",
            typed.listen
        ));
    }
    DataDir::new(home.clone())
        .prepare()
        .map_err(|error| super::options::unusable(error, true))?;
    let lock = SERVER.take(&home).map_err(|error| {
        if error.is_locked() {
            failure!("serve: {error}: td-observe serve --url prints its link")
        } else {
            failure!("serve: {error:?}")
        }
    })?;
    let (token, token_file) = token(&home, &typed)?;
    let listener = TcpListener::bind(&addresses[..])
        .map_err(|cause| failure!("serve: cannot listen at {}: {cause}", typed.listen))?;
    let address = listener
        .local_addr()
        .map_err(|cause| failure!("serve: cannot listen at {}: {cause}", typed.listen))?;
    let signals = Signals::catch(|| {})?;
    let histories = options.data()?;
    let options = Arc::new(options);
    let own = typed.own.start(typed.allow_input);
    let private = private(&options, own, &data)?;
    let served = Served {
        pid: std::process::id(),
        address,
        url: match &public {
            Some(public) => public.to_string(),
            None => format!("http://{address}/"),
        },
        token_file,
    };
    let serving = Serving {
        allows_input: typed.allow_input,
        shows_qr: typed.qr,
        opens: typed.open,
        link: link(&served.url, &token),
        lock,
        served,
        data: histories,
        find: finder(private.as_ref(), data),
        clock: Clock::system(),
    };
    let gate = Gate {
        token,
        public,
        is_open,
    };
    let ended = serving.until_ended((listener, gate), private.as_ref(), &signals);
    let observed = private.map(PrivateObserver::end).transpose();
    ended?;
    observed.map(|code| code.unwrap_or(ExitCode::SUCCESS))
}

/// A server that is about to serve.
struct Serving {
    allows_input: bool,
    shows_qr: bool,
    opens: bool,
    lock: ProcessLock,
    served: Served,
    link: String,
    data: DataDir,
    find: FindObserver,
    clock: Clock,
}

impl Serving {
    /// Serves until a signal arrives, or the private observer ends.
    fn until_ended(
        self,
        (listener, gate): (TcpListener, Gate),
        private: Option<&PrivateObserver>,
        signals: &Signals,
    ) -> Result<(), Failure> {
        let has_ended = || private.is_some_and(PrivateObserver::has_ended);
        // Whoever opens the link misses nothing that is printed from then on.
        while private.is_some() && !has_ended() {
            if let Ok(Observer::Here(own)) = (self.find)() {
                let (servers, clock) = (&own.panes.servers, &self.clock);
                observer::wait_until_observing(servers, &own.feed, clock, &signals.first);
                break;
            }
            select_biased! {
                recv(signals.first) -> _ => return Ok(()),
                recv(self.clock.after(CHECK / 10)) -> _ => {}
            }
        }
        let site = Site {
            gate,
            find: Arc::clone(&self.find),
            allows_input: self.allows_input,
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            slots: Slots::default(),
            clock: self.clock.clone(),
            data: PageData::new(
                Arc::clone(&self.find),
                self.data.clone(),
                self.clock.clone(),
            ),
        };
        let server = Server::on_tcp(listener, Arc::new(site), &self.clock)?;
        let told = self.tell();
        while told.is_ok() && !has_ended() {
            let check = match private {
                Some(_) => self.clock.after(CHECK),
                None => never(),
            };
            select_biased! {
                recv(signals.first) -> _ => break,
                recv(check) -> _ => {}
            }
        }
        self.lock.withdraw();
        server.stop(&self.clock, END);
        told.map(drop)
    }

    /// Announces the server, and shows its link in all requested ways. Returns the file that a browser opens, which must
    /// exist as long as it may read it.
    fn tell(&self) -> Result<Option<NamedTempFile>, Failure> {
        self.lock.announce(&self.served)?;
        output::print(&format!("{}\n", self.link))?;
        if self.shows_qr {
            show_qr(&self.link);
        }
        self.opens.then(|| open(&self.link)).transpose()
    }
}

/// Returns the function that finds the observer anew for each request: it may have been started or ended since.
fn finder(private: Option<&PrivateObserver>, data: PathBuf) -> FindObserver {
    match private.map(PrivateObserver::finder) {
        Some(own) => Arc::new(move || own().ok_or_else(|| STARTING.to_owned())),
        None => Arc::new(move || observer::find(&data)),
    }
}

/// Starts an observer in this process, unless one runs.
fn private(
    options: &Arc<Options>,
    own: TypedStart,
    data: &Path,
) -> Result<Option<PrivateObserver>, Failure> {
    if observer::running(data)?.is_some() {
        return Ok(None);
    }
    message!("no observer runs, so the page observes by itself, until it ends");
    PrivateObserver::start(Arc::clone(options), own).map(Some)
}

/// Returns the addresses that are meant: an address with its port, or a port alone.
fn addresses(typed: &str) -> Result<Vec<SocketAddr>, Failure> {
    let wrong = |why: String| {
        usage!("serve: --listen {typed:?}: {why}: give an address and a port, such as {ADDRESS}")
    };
    let found: Vec<SocketAddr> = match typed.trim_start_matches(':').parse::<u16>() {
        Ok(port) => vec![SocketAddr::from(([127, 0, 0, 1], port))],
        Err(_) => {
            let found = typed.to_socket_addrs();
            found.map_err(|cause| wrong(cause.to_string()))?.collect()
        }
    };
    if found.is_empty() {
        return Err(wrong("no such address".to_owned()));
    }
    Ok(found)
}

/// Returns the token, which is made and kept if there is none, and the file that it is in.
fn token(data: &Path, typed: &TypedServe) -> Result<(Token, PathBuf), Failure> {
    if let Some(path) = &typed.token_file {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        return Ok((token_in(&path)?, path));
    }
    let path = data.join("serve-token");
    if !typed.new_token && path.exists() {
        return Ok((token_in(&path)?, path));
    }
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled
        .map_err(io::Error::from)
        .is_ok_and(|count| count == bytes.len())
    {
        let token = Token::of_bytes(bytes);
        let line = format!("{}\n", token.as_str());
        let kept = replace(&path, line.as_bytes());
        kept.map_err(|cause| failure!("serve: cannot write {}: {cause}", path.display()))?;
        Ok((token, path))
    } else {
        Err(failure!(
            "serve: the system has no random numbers for a token"
        ))
    }
}

fn token_in(path: &Path) -> Result<Token, Failure> {
    let secret = private_line(path).map_err(|why| usage!("serve: {why}"))?;
    Token::parse(&secret).map_err(|why| usage!("serve: {}: {why}", path.display()))
}

/// Prints the link of the running server.
fn print_url(data: &Path, typed: &TypedServe) -> Result<ExitCode, Failure> {
    let Some(served) = SERVER.running::<Served>(data)? else {
        message!("no page is served: td-observe serve begins to");
        return Ok(ExitCode::from(UNSERVED));
    };
    let link = link(&served.url, &token_in(&served.token_file)?);
    output::print(&format!("{link}\n"))?;
    if typed.qr {
        show_qr(&link);
    }
    if typed.open {
        let file = open(&link)?;
        // The browser reads it after this command has ended.
        file.keep()
            .map_err(|failed| failure!("serve: {}", failed.error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a link as a QR code, dark on light, whatever the terminal's colours are.
fn show_qr(link: &str) {
    let Ok(code) = QrCode::new(link) else {
        return message!("the link is too long for a QR code");
    };
    let picture = code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .build();
    let mut error = io::stderr().lock();
    // Nobody reads it if standard error is closed.
    let _ = if error.is_terminal() {
        let rows = picture
            .lines()
            .map(|row| format!("\x1b[97;40m{row}\x1b[0m\n"));
        error.write_all(rows.collect::<String>().as_bytes())
    } else {
        error.write_all(format!("{picture}\n").as_bytes())
    };
}

/// Opens a link in a browser, by a file that leads to it: other users see the arguments of a process, and the link has
/// the token.
fn open(link: &str) -> Result<NamedTempFile, Failure> {
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={link}\">\n\
         <title>td-observe</title><a href=\"{link}\">td-observe</a>\n"
    );
    let written = tempfile::Builder::new()
        .prefix("td-observe-")
        .suffix(".html")
        .tempfile()
        .and_then(|mut file| file.write_all(page.as_bytes()).map(|()| file));
    let file = written.map_err(|cause| failure!("serve: --open: {cause}"))?;
    let browser = std::env::var_os("BROWSER").unwrap_or_else(|| "xdg-open".into());
    let start = DetachedStart {
        program: browser,
        args: vec![file.path().into()],
        env: Vec::new(),
        log: "/dev/null".into(),
    };
    let started = start_detached(&start, Duration::ZERO, &Clock::system());
    if let Err(error) = started {
        message!("no browser is opened: {error}");
    }
    Ok(file)
}
