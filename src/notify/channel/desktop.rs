//! Shows messages on the desktop with `notify-send`, replaces one by its update, and lets it disappear once everything
//! in it is settled.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::super::message::{Note, cut};
use super::{Channel, Sent, Unsent};
use crate::child::{self, Invocation};
use crate::clock::Clock;
use crate::face::{one_line, sanitized};
use crate::thread::Stop;

/// The time after which `notify-send` is killed: it replies within milliseconds, or its bus hangs.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a settled message is shown.
const SETTLED_MS: &str = "3000";

/// The most characters of a body; a bubble shows a few lines.
const BODY_CHARS_MAX: usize = 400;

/// Shows messages with `notify-send`.
#[derive(Debug)]
pub(in crate::notify) struct DesktopChannel {
    env: Vec<(OsString, OsString)>,
    clock: Clock,
    stop: Stop,
}

impl DesktopChannel {
    /// Creates a channel whose program is killed when `stop` is closed.
    pub fn new(clock: Clock, stop: Stop) -> Self {
        Self {
            // A locale in which the texts are valid, and error messages are those that `refused` knows.
            env: vec![("LC_ALL".into(), "C.UTF-8".into())],
            clock,
            stop,
        }
    }

    /// Shows a message, in place of an earlier one if its number is given; returns its number.
    fn show(&self, note: &Note, replaced: Option<&str>) -> Result<Sent, Unsent> {
        let mut args: Vec<&str> = vec!["--print-id", "--app-name=td-observe"];
        let urgency = if note.needs_user() { "normal" } else { "low" };
        args.extend(["--urgency", urgency]);
        if note.is_settled() {
            args.extend(["--expire-time", SETTLED_MS]);
        }
        if let Some(number) = replaced {
            args.extend(["--replace-id", number]);
        }
        let (title, body) = (one_line(&note.title()), body(note));
        args.extend(["--", &title]);
        if !body.is_empty() {
            args.push(&body);
        }
        let invocation = Invocation {
            program: "notify-send".into(),
            args: args.into_iter().map(OsString::from).collect(),
            env: self.env.clone(),
            directory: "/".into(),
            stdin: Vec::new(),
            output_bytes_max: 4 * 1024,
            timeout: TIMEOUT,
        };
        let finished = match child::run(&invocation, &self.clock, &self.stop) {
            Ok(finished) => finished,
            Err(error) if error.is_missing_program() => {
                let text = "the program notify-send was not found: install it \
                            (apt install libnotify-bin, dnf install libnotify)";
                return Err(Unsent::Never(text.into()));
            }
            // It may be shown when its service continues.
            Err(error) if error.is_timeout() || error.is_gone() => {
                return Err(Unsent::Unconfirmed(error.to_string()));
            }
            Err(error) => return Err(Unsent::Later(None, error.to_string())),
        };
        if !finished.status.success() {
            return Err(refused(&String::from_utf8_lossy(&finished.stderr)));
        }
        let printed = String::from_utf8_lossy(&finished.stdout);
        let number = number(printed.trim());
        Ok(Sent(
            number.map(|number| format!("{number} {}", self.session())),
        ))
    }

    /// Returns what tells this session of the desktop from all others. Each one numbers its messages anew: after a
    /// reboot, an old number would replace a message of another program.
    fn session(&self) -> String {
        let var = |name: &str| {
            let own = self.env.iter().rfind(|(own, _)| own == name);
            let inherited = || std::env::var_os(name);
            let value = own.map(|(_, value)| value.clone()).or_else(inherited)?;
            Some(value.to_string_lossy().into_owned())
        };
        let address = var("DBUS_SESSION_BUS_ADDRESS").or_else(|| {
            // The address without a variable.
            Some(format!("unix:path={}/bus", var("XDG_RUNTIME_DIR")?))
        });
        let address = address.unwrap_or_default();
        // The path may be the same in each session, but its socket is another one.
        let path = address.strip_prefix("unix:path=").unwrap_or_default();
        let path = path.split([',', ';']).next().unwrap_or_default();
        match std::fs::metadata(path) {
            Ok(file) => format!("{address} {}.{}", file.ctime(), file.ctime_nsec()),
            Err(_) => address,
        }
    }
}

impl Channel for DesktopChannel {
    fn send(&mut self, note: &Note) -> Result<Sent, Unsent> {
        self.show(note, None)
    }

    /// Replaces the message. One that the user has closed is shown again for a short time by some desktops.
    fn update(&mut self, note: &Note, sent: &Sent) -> Result<(), Unsent> {
        let sent = sent.0.as_deref().and_then(|sent| sent.split_once(' '));
        match sent.and_then(|(sent, session)| Some((number(sent)?, session))) {
            Some((number, session)) if session == self.session() => {
                self.show(note, Some(number)).map(drop)
            }
            // The message has no number, or has disappeared with its session.
            _ => Ok(()),
        }
    }

    fn output(&mut self, _: &str) -> Result<(), Unsent> {
        Err(Unsent::Never("a desktop shows no output".into()))
    }
}

/// Returns the number of a message if the text is one. 0 would be a new message.
fn number(text: &str) -> Option<&str> {
    let number: u32 = text.parse().ok()?;
    (number > 0 && text.starts_with(|c: char| c.is_ascii_digit())).then_some(text)
}

/// Returns the body without control characters, as markup, and with the backslashes that `notify-send` removes.
fn body(note: &Note) -> String {
    let body = note.body(BODY_CHARS_MAX);
    let lines: Vec<String> = body.lines().map(sanitized).collect();
    let text = lines.join("\n");
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\\', r"\\")
}

/// Returns what to do about an error message of `notify-send`.
fn refused(errors: &str) -> Unsent {
    // Helpers of the bus may have printed before.
    let error = errors.lines().rfind(|line| !line.trim().is_empty());
    let error = cut(&one_line(error.unwrap_or("no error message")), 200);
    if error.contains("nknown option") {
        return Unsent::Never(format!(
            "notify-send is older than 0.8, which is needed to replace messages ({error})"
        ));
    }
    Unsent::Never(format!(
        "no desktop shows notifications: start td-observe within the desktop's session, where \
         DBUS_SESSION_BUS_ADDRESS is set ({error})"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use crossbeam_channel::never;
    use serde_json::Value;

    use super::super::super::message::{News, Settled};
    use super::super::testing::{note, wait_for};
    use super::*;

    /// Returns a channel with another value of a variable.
    fn channel(name: &str, value: impl Into<OsString>) -> DesktopChannel {
        let mut channel = DesktopChannel::new(Clock::system(), never());
        channel.env.push((name.into(), value.into()));
        channel
    }

    /// Returns a channel to a program that keeps its arguments, one per line.
    fn recorded(directory: &Path, script: &str) -> DesktopChannel {
        let program = directory.join("notify-send");
        let kept = directory.join("args").display().to_string();
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {kept}\n{script}\n");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let path = std::env::var("PATH").unwrap();
        channel("PATH", format!("{}:{path}", directory.display()))
    }

    #[test]
    fn no_text_is_an_option_or_markup() {
        let directory = tempfile::tempdir().unwrap();
        let mut channel = recorded(directory.path(), "echo 17");
        let mut message = note("n1", "");
        message.items[0].name = "-x\0\x1b".into();
        message.items[0].text = Some("--help <b>&amp;\\n\n\0bold</b>\x07".into());
        let sent = channel.send(&message).unwrap();
        let session = channel.session();
        assert_eq!(sent, Sent(Some(format!("17 {session}"))));
        let args = || fs::read_to_string(directory.path().join("args")).unwrap();
        assert_eq!(
            args(),
            "--print-id\n--app-name=td-observe\n--urgency\nnormal\n--\n-x^@^[ asks\n\
             --help &lt;b&gt;&amp;amp;\\\\n\n^@bold&lt;/b&gt;^G\n"
        );
        message.items[0].settled = Some(Settled::Seen);
        message.items[0].text = None;
        assert_eq!(channel.update(&message, &sent), Ok(()));
        assert_eq!(
            args(),
            "--print-id\n--app-name=td-observe\n--urgency\nlow\n--expire-time\n3000\n--replace-id\n17\n\
             --\n✓ -x^@^[ asks [seen]\n"
        );
        fs::remove_file(directory.path().join("args")).unwrap();
        for wrong in ["0", "--help", "+5", "99999999999"] {
            let sent = Sent(Some(format!("{wrong} {session}")));
            assert_eq!(channel.update(&message, &sent), Ok(()));
        }
        for wrong in ["17", "17 unix:path=/another/bus"] {
            assert_eq!(channel.update(&message, &Sent(Some(wrong.into()))), Ok(()));
        }
        assert_eq!(channel.update(&message, &Sent(None)), Ok(()));
        assert!(!directory.path().join("args").exists());
        message.items[0].news = News::Done;
        message.items[0].settled = None;
        channel.send(&message).unwrap();
        assert!(args().contains("--urgency\nlow\n--\n"), "{}", args());
    }

    #[test]
    fn a_session_is_told_from_the_next_one_at_the_same_path() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("bus");
        let address = format!("unix:path={},guid=1", socket.display());
        let channel = channel("DBUS_SESSION_BUS_ADDRESS", &address);
        assert_eq!(channel.session(), address);
        fs::write(&socket, "").unwrap();
        let first = channel.session();
        assert_ne!(first, address);
        assert_eq!(channel.session(), first);
        wait_for("later time", || {
            fs::remove_file(&socket).unwrap();
            fs::write(&socket, "").unwrap();
            match channel.session() {
                next if next == first => Err(next),
                _ => Ok(()),
            }
        });
    }

    #[test]
    fn a_failure_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let failed = |mut channel: DesktopChannel| match channel.send(&note("n1", "text")) {
            Err(Unsent::Never(text)) => text,
            other => panic!("{other:?}"),
        };
        let text = failed(channel("PATH", directory.path()));
        assert!(text.contains("apt install libnotify-bin"), "{text}");
        let script = "echo 'Unknown option -p' >&2; exit 1";
        let text = failed(recorded(directory.path(), script));
        assert!(text.contains("older than 0.8"), "{text}");
        let script = "echo 0; echo 'Could not connect: No such file or directory' >&2; exit 1";
        let text = failed(recorded(directory.path(), script));
        assert!(text.contains("DBUS_SESSION_BUS_ADDRESS"), "{text}");
        assert!(text.ends_with("(Could not connect: No such file or directory)"));
    }

    /// A process of a test, which ends with it.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            // It may have ended.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A desktop of its own: a bus, a display and `dunst`, which shows notifications.
    struct Desktop {
        bus: String,
        _running: [Running; 3],
    }

    impl Desktop {
        /// Returns `None` where a program is absent, and prints that.
        fn start(directory: &Path) -> Option<Self> {
            let programs = ["notify-send", "dbus-daemon", "Xvfb", "dunst", "dunstctl"];
            let path = std::env::var_os("PATH")?;
            let is_present =
                |name: &&str| std::env::split_paths(&path).any(|path| path.join(name).exists());
            if let Some(absent) = programs.iter().find(|name| !is_present(name)) {
                // The harness shows the output of `eprintln!` for failed tests only.
                let _ = writeln!(
                    std::io::stderr(),
                    "\n!!! skipped: notifications on a desktop ({absent} is absent)"
                );
                return None;
            }
            let mut xvfb = Command::new("Xvfb")
                .args(["-displayfd", "1", "-nolisten", "tcp"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut display = String::new();
            let mut output = BufReader::new(xvfb.stdout.take().unwrap());
            output.read_line(&mut display).unwrap();
            let xvfb = Running(xvfb);
            // No service is activated, so that only this test's `dunst` replies.
            let socket = directory.join("bus");
            let bus = format!("unix:path={}", socket.display());
            let config = directory.join("bus.conf");
            let text = format!(
                "<busconfig><type>session</type><listen>{bus}</listen><policy context='default'>\
                 <allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/>\
                 <allow own='*'/></policy></busconfig>"
            );
            fs::write(&config, text).unwrap();
            let daemon = Command::new("dbus-daemon")
                .arg(format!("--config-file={}", config.display()))
                .arg("--nofork")
                .stderr(Stdio::null())
                .spawn();
            let daemon = Running(daemon.unwrap());
            wait_for("bus", || socket.exists().then_some(()).ok_or("no socket"));
            let config = directory.join("dunstrc");
            fs::write(&config, "").unwrap();
            let dunst = Command::new("dunst")
                .arg("-config")
                .arg(config)
                .env("DISPLAY", format!(":{}", display.trim()))
                .env("DBUS_SESSION_BUS_ADDRESS", &bus)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let dunst = Running(dunst.unwrap());
            let desktop = Self {
                bus,
                _running: [dunst, daemon, xvfb],
            };
            wait_for("dunst", || desktop.ask(&["is-paused"]));
            Some(desktop)
        }

        fn channel(&self) -> DesktopChannel {
            channel("DBUS_SESSION_BUS_ADDRESS", &self.bus)
        }

        /// Returns what `dunstctl` prints.
        fn ask(&self, args: &[&str]) -> Result<String, String> {
            let mut command = Command::new("dunstctl");
            command.args(args);
            let asked = command.env("DBUS_SESSION_BUS_ADDRESS", &self.bus).output();
            let asked = asked.unwrap();
            let text = String::from_utf8(asked.stdout).unwrap();
            let is_answer = asked.status.success() && !text.is_empty();
            is_answer
                .then(|| text.trim().to_owned())
                .ok_or_else(|| String::from_utf8_lossy(&asked.stderr).into_owned())
        }

        /// Waits for a number of messages on the display.
        #[track_caller]
        fn wait_for_displayed(&self, count: &str) {
            wait_for("messages on the display", || {
                match self.ask(&["count", "displayed"]) {
                    Ok(shown) if shown == count => Ok(()),
                    other => Err(other),
                }
            });
        }
    }

    #[test]
    fn a_message_is_shown_replaced_and_gone() {
        let directory = tempfile::tempdir().unwrap();
        let Some(desktop) = Desktop::start(directory.path()) else {
            return;
        };
        let mut channel = desktop.channel();
        let mut first = note("n1", "-p <b>run</b> C:\\new & é?");
        let sent = channel.send(&first).unwrap();
        let other = channel.send(&note("n2", "other")).unwrap();
        assert!(sent.0.is_some() && sent != other, "{sent:?} {other:?}");
        desktop.wait_for_displayed("2");
        first.items[0].settled = Some(Settled::Over);
        channel.update(&first, &sent).unwrap();
        // The settled one disappears by itself.
        desktop.wait_for_displayed("1");
        let history: Value = serde_json::from_str(&desktop.ask(&["history"]).unwrap()).unwrap();
        let shown = &history["data"][0][0];
        let number = sent.0.as_deref().unwrap().split(' ').next().unwrap();
        let number: u64 = number.parse().unwrap();
        assert_eq!(shown["id"]["data"], number, "{shown:#}");
        assert_eq!(shown["summary"]["data"], "✓ job asks [settled]");
        assert_eq!(
            shown["body"]["data"],
            "-p &lt;b&gt;run&lt;/b&gt; C:\\new &amp; é?"
        );
        assert_eq!(shown["appname"]["data"], "td-observe");
        assert_eq!(history["data"][0].as_array().unwrap().len(), 1);
    }
}
