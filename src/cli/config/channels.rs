//! Reads the rules and channels of notifications: `[[notify]]` and `[channel.NAME]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::keys::{CHANNEL, NOTIFY, best_of, path_of};
use super::reader::{Reader, text, wrong_type};
use super::table::{Fault, Table, of_key, shown_plainly};
use crate::agent_loop::Secret;
use crate::cli::duration::parse_duration;
use crate::cli::private_file::private_line;

use crate::notify::{ChannelKind, ChannelSettings, News, Rule, Settings, check_channel};

/// What a key's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Flag,
    /// A number, or a name that begins with `@`.
    Chat,
    /// A list of numbers.
    Numbers,
    /// The path of a file that only its owner can read.
    SecretFile,
    /// An address, which may contain a secret.
    Url,
}

/// A key of a channel.
struct ChannelKey {
    name: &'static str,
    kind: Kind,
    /// The kinds of channels that have it; empty for all.
    of: &'static [&'static str],
}

const fn key(name: &'static str, kind: Kind, of: &'static [&'static str]) -> ChannelKey {
    ChannelKey { name, kind, of }
}

const KINDS: [&str; 7] = [
    "desktop", "tmux", "bell", "ntfy", "webhook", "telegram", "command",
];

const CHANNEL_KEYS: &[ChannelKey] = &[
    key("kind", Kind::Text, &[]),
    key("text", Kind::Flag, &[]),
    key(
        "output",
        Kind::Flag,
        &["ntfy", "webhook", "telegram", "command"],
    ),
    key("bell", Kind::Flag, &["tmux"]),
    key("url", Kind::Url, &["ntfy", "webhook", "telegram"]),
    key(
        "allow_plain_http",
        Kind::Flag,
        &["ntfy", "webhook", "telegram"],
    ),
    key("click", Kind::Url, &["ntfy"]),
    key("token_file", Kind::SecretFile, &["ntfy", "telegram"]),
    key("secret_file", Kind::SecretFile, &["webhook"]),
    key("chat", Kind::Chat, &["telegram"]),
    key("answers", Kind::Flag, &["telegram"]),
    key("users", Kind::Numbers, &["telegram"]),
    key("run", Kind::Text, &["command"]),
];

const RULE_KEYS: [&str; 4] = ["when", "only", "after", "to"];

impl Reader<'_> {
    /// Reads the channels, then the rules that name them.
    pub(super) fn read_notifications(
        &mut self,
        rules: Option<(usize, &Spanned<DeValue<'_>>)>,
        channels: Option<(usize, &Spanned<DeValue<'_>>)>,
    ) {
        let mut settings = Settings::default();
        let before = self.problems.len();
        if let Some((at, channels)) = channels {
            match channels.get_ref() {
                DeValue::Table(table) => {
                    let mut channels: Vec<_> = table.iter().collect();
                    channels.sort_by_key(|(name, _)| name.span().start);
                    for (name, value) in channels {
                        let at = name.span().start;
                        let channel = self.channel(name.get_ref(), at, value);
                        settings.channels.extend(channel);
                    }
                }
                _ => self.report(
                    at,
                    "channel: write a table for each channel, as in [channel.phone]",
                ),
            }
        }
        self.check_variables(&settings, channels.map_or(0, |(at, _)| at));
        let are_channels_right = self.problems.len() == before;
        if let Some((at, rules)) = rules {
            match rules.get_ref() {
                DeValue::Array(rules) => {
                    for rule in rules.iter() {
                        let rule = self.rule(rule, &settings.channels, are_channels_right);
                        settings.rules.extend(rule);
                    }
                }
                _ => self.report(
                    at,
                    "notify: write [[notify]], with two brackets, for each rule",
                ),
            }
        }
        self.notifications = settings;
    }

    /// Reports channels that would share the secret of a variable.
    fn check_variables(&mut self, settings: &Settings, at: usize) {
        let mut known: BTreeMap<String, &str> = BTreeMap::new();
        for channel in &settings.channels {
            let variable = variable(&channel.name);
            let is_set = std::env::var_os(&variable).is_some();
            if let Some(other) = known.insert(variable.clone(), &channel.name)
                && is_set
            {
                let name = &channel.name;
                let why =
                    format!("channel: {other} and {name} share {variable}: rename one of them");
                self.report(at, &why);
            }
        }
    }

    fn rule(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        channels: &[ChannelSettings],
        are_channels_right: bool,
    ) -> Option<Rule> {
        let at = value.span().start;
        let DeValue::Table(table) = value.get_ref() else {
            self.report(
                at,
                "notify: write [[notify]], with two brackets, for each rule",
            );
            return None;
        };
        let table = Table { at, table };
        let before = self.problems.len();
        for (name, _) in table.table.iter() {
            if !RULE_KEYS.contains(&&**name.get_ref()) {
                let why = best_of(name.get_ref(), RULE_KEYS.into_iter(), "notify has no key");
                self.report(name.span().start, &why);
            }
        }
        let when = self.list(&table, "when", |word| {
            News::from_name(word).ok_or_else(|| {
                let words = News::ALL.map(News::as_str);
                best_of(word, words.into_iter(), "no state is called")
            })
        });
        let when = match table.get("when") {
            Some(value) => {
                if when.is_empty() && self.problems.len() == before {
                    self.report(
                        value.span().start,
                        "when: it names no state, so that nothing is told",
                    );
                }
                when
            }
            None => News::ALL
                .into_iter()
                .filter(|news| news.needs_user())
                .collect(),
        };
        let only = self.list(&table, "only", |word| match word {
            "" => Err("an empty text is no name".to_owned()),
            _ => Ok(word.to_owned()),
        });
        let to = self.list(&table, "to", |word| {
            if word.is_empty() {
                return Err("an empty text is no channel".to_owned());
            }
            let mut names = channels.iter().map(|channel| &*channel.name);
            if names.any(|name| name == word) || !are_channels_right {
                return Ok(word.to_owned());
            }
            let names = channels.iter().map(|channel| &*channel.name);
            let why = best_of(word, names, "there is no channel");
            Err(format!("{why}; write a table [channel.{word}]"))
        });
        if table.get("to").is_none() {
            self.report(
                at,
                "notify: to is missing: write to = \"NAME\" with the name of a channel",
            );
        } else if to.is_empty() && self.problems.len() == before {
            self.report(at, "notify: to names no channel");
        }
        let after = table.get("after").and_then(|value| {
            let parsed = text(value).map_err(of_key("after")).and_then(|text| {
                let time = match &*text {
                    "0" | "0s" => Ok(Duration::ZERO),
                    text => parse_duration(text),
                };
                time.map_err(|why| (value.span().start, format!("after: {why}")))
            });
            parsed.map_err(|(at, why)| self.report(at, &why)).ok()
        });
        if self.problems.len() > before {
            return None;
        }
        self.keep(NOTIFY.to_owned(), &table, |_| Kind::Text);
        Some(Rule {
            when,
            only,
            after,
            to,
        })
    }

    /// Reads a list of words, or one; reports each that does not fit.
    fn list<T>(
        &mut self,
        table: &Table<'_, '_>,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(value) = table.get(name) else {
            return Vec::new();
        };
        let words: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(words) => words.iter().collect(),
            _ => vec![value],
        };
        let mut found = Vec::new();
        for word in words {
            let parsed = text(word).map_err(of_key(name)).and_then(|text| {
                parse(&text).map_err(|why| (word.span().start, format!("{name}: {why}")))
            });
            match parsed {
                Ok(parsed) => found.push(parsed),
                Err((at, why)) => self.report(at, &why),
            }
        }
        found
    }

    fn channel(
        &mut self,
        name: &str,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<ChannelSettings> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 32 || !name.chars().all(is_plain) {
            self.report(
                at,
                "the name of a channel has up to 32 letters, digits, - and _",
            );
            return None;
        }
        let DeValue::Table(table) = value.get_ref() else {
            self.report(
                at,
                &format!("channel.{name}: write a table, as in [channel.{name}]"),
            );
            return None;
        };
        let table = Table { at, table };
        let before = self.problems.len();
        let kind = table
            .required("kind", "\"tmux\"")
            .and_then(|value| Ok((value.span().start, text(value).map_err(of_key("kind"))?)))
            .and_then(|(at, kind)| {
                let known = KINDS.into_iter().find(|known| *known == kind);
                known.ok_or_else(|| (at, best_of(&kind, KINDS.into_iter(), "there is no kind")))
            });
        let kind = match kind {
            Ok(kind) => kind,
            Err((at, why)) => {
                self.report(at, &format!("channel.{name}: {why}"));
                return None;
            }
        };
        let keys = || {
            let has = |key: &&ChannelKey| key.of.is_empty() || key.of.contains(&kind);
            CHANNEL_KEYS.iter().filter(has)
        };
        for (key, _) in table.table.iter() {
            let key_at = key.span().start;
            let key = key.get_ref();
            if keys().any(|known| known.name == key) {
                continue;
            }
            let why = match (&**key, kind) {
                ("token", "ntfy" | "telegram") | ("secret", "webhook") => {
                    format!("{key} is not written here: put it into a file and write {key}_file")
                }
                _ => {
                    let known = keys().map(|key| key.name);
                    best_of(key, known, &format!("a channel of kind {kind} has no key"))
                }
            };
            self.report(key_at, &format!("channel.{name}: {why}"));
        }
        let built = self.built(name, kind, &table);
        match built {
            Ok(channel) if self.problems.len() == before => {
                let kind_of = |name: &str| {
                    let key = CHANNEL_KEYS.iter().find(|key| key.name == name);
                    key.map_or(Kind::Text, |key| key.kind)
                };
                self.keep(format!("{CHANNEL}.{name}"), &table, kind_of);
                Some(channel)
            }
            Ok(_) => None,
            Err((at, why)) => {
                self.report(at, &format!("channel.{name}: {why}"));
                None
            }
        }
    }

    fn built(
        &self,
        name: &str,
        kind: &str,
        table: &Table<'_, '_>,
    ) -> Result<ChannelSettings, Fault> {
        let required =
            |key: &str, example: &str| text(table.required(key, example)?).map_err(of_key(key));
        let url = |example: &str| -> Result<String, Fault> {
            let value = table.required("url", example)?;
            let url = text(value).map_err(of_key("url"))?;
            check_url(&url).map_err(|why| (value.span().start, format!("url: {why}")))?;
            Ok(url)
        };
        let kind = match kind {
            "desktop" => ChannelKind::Desktop,
            "tmux" => ChannelKind::Tmux {
                bell: table.flag("bell", false)?,
            },
            "bell" => ChannelKind::Bell,
            "ntfy" => {
                let url = url("\"https://ntfy.sh/TOPIC\"")?;
                let click = table.get("click").map(|value| {
                    let click = text(value).map_err(of_key("click"))?;
                    let place = value.span().start;
                    check_url(&click).map_err(|why| (place, format!("click: {why}")))?;
                    Ok(click)
                });
                ChannelKind::Ntfy {
                    url,
                    click: click.transpose()?,
                    token: self.secret(name, table, "token_file")?,
                }
            }
            "webhook" => ChannelKind::Webhook {
                url: url("\"https://…\"")?,
                secret: self.secret(name, table, "secret_file")?,
            },
            "telegram" => {
                let token = self.secret(name, table, "token_file")?;
                let token = token.ok_or_else(|| {
                    let variable = variable(name);
                    let why = format!(
                        "token_file is missing: write token_file = \"~/.config/td-observe/telegram-token\", or set {variable}"
                    );
                    (table.at, why)
                })?;
                let chat = table.required("chat", "12345")?;
                let users = match table.get("users") {
                    Some(users) => numbers(users)?,
                    None => Vec::new(),
                };
                let answers = table.flag("answers", false)?;
                if answers && users.is_empty() {
                    let why =
                        "answers = true needs users = [ID, …]: the users who may press the buttons";
                    return Err((
                        table.get("answers").map_or(table.at, |it| it.span().start),
                        why.to_owned(),
                    ));
                }
                ChannelKind::Telegram {
                    url: table.get("url").map(|_| url("")).transpose()?,
                    token,
                    chat: chat_of(chat)?,
                    answers,
                    users,
                }
            }
            _ => ChannelKind::Command {
                run: match required("run", "\"COMMAND\"")? {
                    run if run.trim().is_empty() => {
                        let at = table.get("run").map_or(table.at, |it| it.span().start);
                        return Err((at, "run: the command is empty".to_owned()));
                    }
                    run if run.contains('\0') => {
                        let at = table.get("run").map_or(table.at, |it| it.span().start);
                        return Err((at, "run: it contains a NUL".to_owned()));
                    }
                    run => run,
                },
            },
        };
        let settings = ChannelSettings {
            name: name.to_owned(),
            kind,
            text: table.flag("text", true)?,
            output: table.flag("output", false)?,
            allow_plain_http: table.flag("allow_plain_http", false)?,
        };
        let place = |key: &str| table.get(key).map_or(table.at, |it| it.span().start);
        if settings.output && !settings.text {
            let why = "output = true sends texts, which text = false forbids";
            return Err((place("output"), why.to_owned()));
        }
        check_channel(&settings).map_err(|why| (place("url"), why))?;
        Ok(settings)
    }

    /// Returns the secret of a channel: that of the variable, else of the file.
    fn secret(
        &self,
        channel: &str,
        table: &Table<'_, '_>,
        key: &str,
    ) -> Result<Option<Secret>, Fault> {
        let set = std::env::var(variable(channel)).ok();
        if let Some(value) = set.filter(|value| !value.trim().is_empty()) {
            return Ok(Some(Secret::new(&value)));
        }
        let Some(value) = table.get(key) else {
            return Ok(None);
        };
        let at = value.span().start;
        let path = path_of(&text(value).map_err(of_key(key))?, self.path.parent());
        let secret = private_line(&PathBuf::from(path)).map(|line| Secret::new(&line));
        secret
            .map(Some)
            .map_err(|why| (at, format!("{key}: {why}")))
    }

    /// Keeps a rule or a channel for those who ask where its values come from.
    fn keep(&mut self, name: String, table: &Table<'_, '_>, kind_of: impl Fn(&str) -> Kind) {
        let known = CHANNEL_KEYS.iter().map(|key| key.name).chain(RULE_KEYS);
        let known: Vec<&'static str> = known.collect();
        self.keep_section(name, table, &known, |name, value| {
            shown(value, kind_of(name))
        });
    }
}

/// Returns the name of the variable that holds the secret of a channel.
fn variable(channel: &str) -> String {
    format!(
        "TD_NOTIFY_TOKEN_{}",
        channel.to_uppercase().replace('-', "_")
    )
}

fn check_url(url: &str) -> Result<(), String> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Err("write an address that begins with https://".to_owned());
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("this is no address".to_owned());
    }
    if host.contains('@') {
        return Err(
            "an address with a password is shown and logged: put the secret into a file".to_owned(),
        );
    }
    Ok(())
}

fn chat_of(value: &Spanned<DeValue<'_>>) -> Result<String, Fault> {
    let wanted = "the number of a chat, or \"@name\"";
    match value.get_ref() {
        DeValue::Integer(number) if number.to_string() != "0" => Ok(number.to_string()),
        DeValue::String(name) if name.starts_with('@') && name.len() > 1 => Ok(name.to_string()),
        DeValue::String(name) if name.parse::<i64>().is_ok_and(|id| id != 0) => {
            Ok(name.to_string())
        }
        DeValue::String(_) | DeValue::Integer(_) => {
            Err((value.span().start, format!("chat: write {wanted}")))
        }
        _ => Err(wrong_type(value, wanted)),
    }
}

fn numbers(value: &Spanned<DeValue<'_>>) -> Result<Vec<i64>, Fault> {
    let wanted = "a list of numbers, as in [12345]";
    let DeValue::Array(array) = value.get_ref() else {
        return Err(wrong_type(value, wanted));
    };
    let number = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Integer(number) => match number.to_string().parse() {
            Ok(id) if id > 0 => Ok(id),
            _ => Err((
                value.span().start,
                format!("users: the number of a user is above 0: write {wanted}"),
            )),
        },
        _ => Err(wrong_type(value, wanted)),
    };
    array.iter().map(number).collect()
}

/// Returns a value as it may be shown: of an address only its host, because the rest may be a secret.
fn shown(value: &Spanned<DeValue<'_>>, kind: Kind) -> Value {
    match value.get_ref() {
        DeValue::String(text) if kind == Kind::Url => {
            let mut parts = text.splitn(4, '/');
            let host: Vec<&str> = parts.by_ref().take(3).collect();
            let rest = if parts.next().is_some_and(|rest| !rest.is_empty()) {
                "/…"
            } else {
                ""
            };
            format!("{}{rest}", host.join("/")).into()
        }
        DeValue::Array(array) => array.iter().map(|value| shown(value, kind)).collect(),
        _ => shown_plainly(value),
    }
}
