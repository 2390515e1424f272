//! `td-observe notify`: tries a channel, and shows what was sent, withheld and withdrawn.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::failure::Failure;
use super::history::data_dir;
use super::options::Options;
use super::{known, output};
use crate::clock::Clock;
use crate::face::{LocalTime, one_line};
use crate::notify::{Entry, Item, NotifyLog, What, try_channel};

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/notify.txt").trim_end())]
pub(super) struct TypedNotify {
    #[command(subcommand)]
    pub action: NotifyAction,
}

/// What is done about notifications.
#[derive(Debug, Subcommand)]
pub(super) enum NotifyAction {
    /// Send one message through a channel, and report how it went
    #[command(after_help = "\
Example:
  td-observe notify test phone

Exit codes: 0 it was sent, 1 it was not, 2 there is no such channel.")]
    Test(TypedTest),
    /// Show what was sent, withheld and withdrawn, and why
    #[command(after_help = "\
Examples:
  td-observe notify log            the last 50 lines
  td-observe notify log web -n 5   the last 5 about the row or the channel web
  td-observe notify log --json     {\"ts\":…,\"what\":\"withheld\",\"channel\":…,\"items\":[…],\"why\":…}

The lines are in notify.jsonl in the data directory, up to 2 MiB of them.")]
    Log(TypedNotifyLog),
}

#[derive(Debug, clap::Args)]
pub(super) struct TypedTest {
    /// The channel
    #[arg(value_name = "CHANNEL", add = ArgValueCompleter::new(channels))]
    pub channel: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct TypedNotifyLog {
    /// Show only what is about this row or this channel
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(known::rows))]
    pub name: Option<String>,
    /// Show the last N lines
    #[arg(short = 'n', long, value_name = "N", default_value = "50")]
    pub lines: usize,
}

/// Offers the channels of the configuration.
fn channels(typed: &OsStr) -> Vec<CompletionCandidate> {
    known::candidates(&typed.to_string_lossy(), super::config::channel_names())
}

/// Runs a subcommand of `notify`.
pub(super) fn run(options: &Options, typed: &TypedNotify) -> Result<ExitCode, Failure> {
    match &typed.action {
        NotifyAction::Test(typed) => test(options, typed),
        NotifyAction::Log(typed) => show(options, typed),
    }
}

fn test(options: &Options, typed: &TypedTest) -> Result<ExitCode, Failure> {
    let channels = &options.notifications.channels;
    let name = &typed.channel;
    let Some(channel) = channels.iter().find(|channel| channel.name == *name) else {
        let names = channels.iter().map(|channel| &*channel.name);
        let hint = known::hint(name, names, "td-observe config show channel");
        return Err(usage!("notify test: there is no channel {name:?}{hint}"));
    };
    let clock = Clock::system();
    let servers = options.servers.iter().map(|chosen| chosen.server());
    match try_channel(channel, servers.collect(), clock) {
        Ok(()) if options.json => {
            let sent = serde_json::json!({ "channel": name, "sent": true });
            output::print(&format!("{sent}\n"))
        }
        Ok(()) => output::print(&format!("sent through {name}\n")),
        Err(why) => Err(failure!("channel {name}: {why}")),
    }
}

fn show(options: &Options, typed: &TypedNotifyLog) -> Result<ExitCode, Failure> {
    let data = data_dir(options)?;
    let mut log = NotifyLog::in_directory(data.path());
    let mut entries = log.read().map_err(|error| failure!("{error:?}"))?;
    if let Some(name) = &typed.name {
        entries.retain(|entry| {
            let mut rows = entry.items.iter();
            entry.channel.as_ref() == Some(name) || rows.any(|item| item.name == *name)
        });
    }
    if options.json {
        entries.drain(..entries.len().saturating_sub(typed.lines));
        return output::print(&output::json_lines(&entries));
    }
    if entries.is_empty() {
        let of = typed
            .name
            .as_ref()
            .map_or(String::new(), |name| format!(" of {name:?}"));
        message!("no notification{of} was sent or withheld yet");
    }
    let mut time = LocalTime::of_system();
    let lines = entries.iter().flat_map(|entry| {
        let name = typed
            .name
            .as_deref()
            .filter(|name| entry.channel.as_deref() != Some(name));
        lines_of(entry, name, &mut time)
    });
    let mut lines: Vec<String> = lines.collect();
    lines.drain(..lines.len().saturating_sub(typed.lines));
    output::print(&lines.concat())
}

/// Returns the lines of an entry: one for each item, or for those of a row with this name.
fn lines_of(entry: &Entry, name: Option<&str>, time: &mut LocalTime) -> Vec<String> {
    let at = time.second(entry.ts).to_owned();
    let channel = entry.channel.as_deref().unwrap_or_default();
    let why = || one_line(entry.why.as_deref().unwrap_or_default());
    let what = match entry.what {
        What::Started => return vec![format!("{at}  an observer begins to notify\n")],
        What::Stopped => return vec![format!("{at}  the observer has ended\n")],
        What::OutputFailed => {
            return vec![format!(
                "{at}  output not sent  {channel:<8}  ({})\n",
                why()
            )];
        }
        What::OutputLost => {
            let lines = entry.lines.unwrap_or_default();
            return vec![format!(
                "{at}  output not sent  {channel:<8}  {lines} lines at the end\n"
            )];
        }
        What::Sent => "sent",
        What::Unconfirmed => "unconfirmed",
        What::Failed => "failed",
        What::Refused => "given up",
        What::Updated => "updated",
        What::NotUpdated => "not updated",
        What::Nobody | What::Withheld => "withheld",
        What::Sending | What::Unknown => return Vec::new(),
    };
    let mut end = match entry.why {
        Some(_) => format!("  ({})", why()),
        None => String::new(),
    };
    if let Some(again) = entry.again {
        end.push_str(&format!("  again at {}", time.second(again)));
    }
    let items = entry.items.iter();
    let items = items.filter(|item| name.is_none_or(|name| item.name == name));
    let line = |item: &Item| {
        let said = one_line(&item.line());
        format!("{at}  {what:<11}  {channel:<8}  {said}{end}\n")
    };
    items.map(line).collect()
}
