//! The keys of the configuration. Each but the servers has the name of an option, whose parser checks its values.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::face::{is_unsafe, one_line};

/// The key of the tmux servers, for which the command line has `-L` and `-S`.
pub(super) const SERVERS: &str = "servers";

/// The name of the tables of rules for notifications.
pub(super) const NOTIFY: &str = "notify";

/// The name of the table of channels.
pub(super) const CHANNEL: &str = "channel";

/// The name of the table of hosts.
pub(super) const HOSTS: &str = "hosts";

/// A key of the configuration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// True if a value is a path, or may be one.
    has_paths: bool,
    /// What it is for, as the file of `config init` says it.
    about: &'static str,
    /// A value, as a file writes it.
    example: &'static str,
}

/// The kind of a key's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flag,
    Number,
    One,
    Several,
}

/// The values of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: &'static Key,
    /// The values as the option takes them; one of `true` and `false` for a flag.
    pub values: Vec<String>,
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The line of the file, from 1.
    File(usize),
    Variable(String),
}

#[cfg_attr(not(any(feature = "hosts", feature = "notify")), allow(dead_code))]
impl Origin {
    /// Returns the line, if it is a file's.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::File(line) => Some(*line),
            Self::Variable(_) => None,
        }
    }

    /// Returns the name of the variable, or this path of the file.
    pub fn place(&self, file: &str) -> String {
        match self {
            Self::File(_) => file.to_owned(),
            Self::Variable(name) => name.clone(),
        }
    }
}

const fn key(
    name: &'static str,
    (kind, has_paths): (Kind, bool),
    about: &'static str,
    example: &'static str,
) -> Key {
    Key {
        name,
        kind,
        has_paths,
        about,
        example,
    }
}

/// All keys, in the order in which they are shown.
pub(super) const KEYS: &[Key] = &[
    key(
        SERVERS,
        (Kind::Several, true),
        "The tmux servers that are observed, by name as for tmux -L or by path as for tmux -S; without it, the one that\n\
         tmux would choose.",
        r#"["work", "/tmp/tmux-1000/play"]"#,
    ),
    key(
        "agents",
        (Kind::Several, true),
        "Directories in which background agents write their output files.",
        r#"["~/tasks"]"#,
    ),
    key(
        "allow_input",
        (Kind::Flag, false),
        "Let clients of the observer's API, and the key r of the terminal UI, type into panes.",
        "true",
    ),
    key(
        "redact",
        (Kind::One, true),
        "A file with more rules for secrets; without it, redact.toml in the data directory.",
        r#""~/.config/td-observe/redact.toml""#,
    ),
    key(
        "redact_env",
        (Kind::Several, false),
        "Variables whose values are redacted wherever they appear; '*_TOKEN' stands for all names with this ending.",
        r#"["*_TOKEN", "DATABASE_URL"]"#,
    ),
    key(
        "redact_env_file",
        (Kind::Several, true),
        "Files of NAME=VALUE lines whose values are redacted.",
        r#"["~/project/.env"]"#,
    ),
    key(
        "sync",
        (Kind::One, false),
        "When a log is synced to the disk: none, interval (once a second) or always.",
        r#""interval""#,
    ),
    key(
        "rotate_size",
        (Kind::One, false),
        "The size at which a log goes on in a new file, or none.",
        r#""64MiB""#,
    ),
    key(
        "rotate_age",
        (Kind::One, false),
        "The age at which a log goes on in a new file, or none.",
        r#""1d""#,
    ),
    key(
        "keep_size",
        (Kind::One, false),
        "The oldest ended runs are removed beyond this total size, or none.",
        r#""10GiB""#,
    ),
    key(
        "keep_age",
        (Kind::One, false),
        "Runs that ended longer ago than this are removed.",
        r#""30d""#,
    ),
    key(
        "keep_runs",
        (Kind::Number, false),
        "At most this many runs are kept.",
        "1000",
    ),
];

/// Returns the names of all keys.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    let notifications = cfg!(feature = "notify").then_some([NOTIFY, CHANNEL]);
    let hosts = cfg!(feature = "hosts").then_some(HOSTS);
    let keys = KEYS.iter().map(|key| key.name);
    keys.chain(notifications.into_iter().flatten()).chain(hosts)
}

/// Says that there is no such key, and which one may be meant.
pub(super) fn unknown(name: &str) -> String {
    best_of(name, names(), "there is no key")
}

/// Says that a word is none of some names, as in `there is no key "sink"`, and which one may be meant.
pub(super) fn best_of<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    problem: &str,
) -> String {
    let similar = |known: &&str| strsim::jaro(known, word);
    let best = names
        .clone()
        .max_by(|a, b| similar(a).total_cmp(&similar(b)));
    let shown = one_line(word);
    // The bound of clap's own suggestions.
    match best.filter(|best| similar(best) > 0.7) {
        Some(best) => format!("{problem} {shown:?}; did you mean {best}?"),
        None => {
            let names: Vec<&str> = names.collect();
            let all = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            format!("{problem} {shown:?}; there are: {all}")
        }
    }
}

/// Returns a path without `~`; one that is relative is beside the file in this directory.
pub(super) fn path_of(value: &str, directory: Option<&Path>) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let in_home = (value == "~")
        .then_some("")
        .or_else(|| value.strip_prefix("~/"));
    let path = match (in_home, home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => directory.map_or_else(|| PathBuf::from(value), |directory| directory.join(value)),
    };
    let path = path.into_os_string().into_string();
    path.unwrap_or_else(|_| value.to_owned())
}

impl Key {
    /// Returns the name of its option without the dashes.
    pub fn option(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns the name of the variable that gives its values.
    pub fn variable(&self) -> String {
        format!("TD_{}", self.name.to_uppercase())
    }

    /// Returns the values in a variable, in which colons separate several.
    pub fn of_variable(
        &self,
        value: &OsStr,
        command: &clap::Command,
    ) -> Result<Vec<String>, String> {
        let value = value.to_str().ok_or("it is no text in UTF-8")?;
        let values = match self.kind {
            Kind::Several => value.split(':').filter(|part| !part.is_empty()).collect(),
            Kind::Number | Kind::One => vec![value],
            Kind::Flag => match value {
                "1" | "true" | "yes" => vec!["true"],
                "0" | "false" | "no" => vec!["false"],
                _ => return Err(format!("{value:?} is neither true nor false")),
            },
        };
        let values = values.into_iter().map(str::to_owned).collect();
        self.checked(values, None, command)
    }

    /// Returns the values as the option takes them: paths without `~`, and those of a file beside it.
    ///
    /// # Errors
    /// When the option of `command` refuses a value, in words.
    pub fn checked(
        &self,
        values: Vec<String>,
        directory: Option<&Path>,
        command: &clap::Command,
    ) -> Result<Vec<String>, String> {
        if values.iter().any(String::is_empty) {
            return Err("it is empty".to_owned());
        }
        let values: Vec<String> = values
            .into_iter()
            .map(|value| self.path_of(value, directory))
            .collect();
        if values.iter().any(|value| value.contains('\0')) {
            return Err("it contains a NUL".to_owned());
        }
        // What names rules must be there.
        let is_missing = |value: &&String| self.needs_file() && !Path::new(value).exists();
        if let Some(missing) = values.iter().find(is_missing) {
            return Err(format!("{missing:?}: there is no such file"));
        }
        if self.name == SERVERS || self.kind == Kind::Flag {
            return Ok(values);
        }
        for value in &values {
            let option = format!("--{}={value}", self.option());
            let words = ["td-observe", "start", &option];
            if let Err(error) = command.clone().try_get_matches_from(words) {
                let why = match (self.kind, error.source()) {
                    (Kind::Number, _) => "write a whole number".to_owned(),
                    (_, Some(source)) => source.to_string(),
                    (_, None) => error.kind().to_string(),
                };
                return Err(format!("{value:?} does not fit: {why}"));
            }
        }
        Ok(values)
    }

    /// Returns true if each value is a file of rules.
    fn needs_file(&self) -> bool {
        ["redact", "redact_env_file"].contains(&self.name)
    }

    fn path_of(&self, value: String, directory: Option<&Path>) -> String {
        // A server's name has no slash.
        let is_name = self.name == SERVERS && !value.contains(['/', '~']);
        if !self.has_paths || is_name {
            return value;
        }
        path_of(&value, directory)
    }

    /// Returns the values that hold if nothing gives others.
    pub fn default_values(&self, command: &clap::Command) -> Vec<String> {
        let start = command.find_subcommand("start");
        let option =
            start.and_then(|start| start.get_arguments().find(|arg| arg.get_id() == self.name));
        let values = option.map_or(&[][..], clap::Arg::get_default_values);
        let text = |value: &clap::builder::OsStr| OsString::from(value).into_string().ok();
        values.iter().filter_map(text).collect()
    }

    /// Returns the line of a file that gives these values; a comment if there are none.
    pub fn assignment(&self, values: &[String]) -> String {
        let name = self.name;
        let text = |value: &String| quoted(value);
        match (self.kind, values.first()) {
            (Kind::Several, _) => {
                let values: Vec<String> = values.iter().map(text).collect();
                format!("{name} = [{}]", values.join(", "))
            }
            (Kind::Flag, first) => {
                format!("{name} = {}", first.is_some_and(|value| value == "true"))
            }
            (Kind::Number, Some(value)) => format!("{name} = {value}"),
            (Kind::One, Some(value)) => format!("{name} = {}", text(value)),
            (Kind::Number | Kind::One, None) => format!("# {name} is not set"),
        }
    }
}

/// Returns a text as a file writes it; what a terminal would obey or not show is escaped.
pub(super) fn quoted(value: &str) -> String {
    let mut text = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            _ if !is_unsafe(c) => text.push(c),
            _ => text.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    text.push('"');
    text
}

/// Returns a file that explains each key, and sets none.
pub(super) fn commented_file() -> String {
    let mut text = "\
# The configuration of td-observe. Each key gives an option its value where the command line does not; the variable
# TD_KEY, such as TD_KEEP_AGE, takes precedence over this file. Paths may begin with ~, and are relative to this file.
# A change takes effect with the next start; td-observe config check reports what is wrong here.
"
    .to_owned();
    for key in KEYS {
        let about = key.about.replace('\n', "\n# ");
        text.push_str(&format!("\n# {about}\n# {} = {}\n", key.name, key.example));
    }
    if cfg!(feature = "notify") {
        text.push_str(NOTIFICATIONS);
    }
    if cfg!(feature = "hosts") {
        text.push_str(HOSTS_TEXT);
    }
    text
}

/// The rules and channels of the commented file.
const NOTIFICATIONS: &str = r#"
# Notifications. A rule tells what the rows with these names do, through a channel; td-observe help notifications has
# a recipe for each kind of channel, and td-observe notify test NAME tries one.
# [[notify]]
# when = ["waiting", "error", "limited", "failed", "done", "ended"]
# only = ["agent-*"]         # without it, all rows
# after = "30s"              # only if it still holds; without it 5 s for waiting, 0 s for the rest
# to = "here"

# [channel.here]
# kind = "tmux"              # desktop, tmux, bell, ntfy, webhook, telegram or command
# bell = true
# text = false               # names and states alone

# [channel.phone]
# kind = "ntfy"
# url = "https://ntfy.sh/TOPIC"
# token_file = "~/.config/td-observe/ntfy-token"

# [channel.chat]
# kind = "telegram"
# chat = 12345
# token_file = "~/.config/td-observe/telegram-token"
# answers = true             # buttons that answer, with start --allow-input
# users = [12345]
# output = true              # also what the rows print or say

# [channel.hook]
# kind = "webhook"
# url = "https://example.org/hook"
# secret_file = "~/.config/td-observe/hook-secret"

# [channel.own]
# kind = "command"
# run = "cat >> ~/notifications.jsonl"
"#;

/// The hosts of the commented file.
const HOSTS_TEXT: &str = r#"
# Hosts. Those in names are read over ssh by status, tui and other commands without --host, too; --host local reads this
# one alone. The names are those of ~/.ssh/config. TD_HOSTS, with colons between the names, takes precedence.
# [hosts]
# names = ["local", "build-1", "build.example.org"]

# [hosts.build-1]            # a name with a dot is quoted: [hosts."build.example.org"]
# command = "/opt/td/td-observe"  # the program there, if the PATH of ssh lacks it
"#;
