//! Builds the channels that the configuration names.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::bell::BellChannel;
use super::command::CommandChannel;
use super::desktop::DesktopChannel;
use super::http::{Client, Limits};
use super::ntfy::{Ntfy, escaped_len};
use super::telegram::{Chat, Telegram};
use super::tmux::TmuxChannel;
use super::webhook::Webhook;
use super::{Answers, Channel};
use crate::clock::Clock;
use crate::error::Result;
use crate::notify::output::Size;
use crate::notify::settings::{ChannelKind, ChannelSettings};
use crate::notify::tact::ChannelTraits;
use crate::thread::Stop;
use crate::tmux::Server;

/// What channels need of the process that notifies.
#[derive(Clone)]
pub(in crate::notify) struct Surroundings {
    /// The tmux servers whose clients are told.
    pub servers: Vec<Server>,
    /// Answers questions; `None` if nothing may be typed.
    pub answers: Option<Arc<dyn Answers>>,
    /// Gets what the user should know about a channel.
    pub warnings: Sender<String>,
    pub clock: Clock,
    /// Closed at the end.
    pub stop: Stop,
}

/// Builds a channel.
///
/// # Errors
/// `is_invalid_input()` if its settings do not fit; otherwise when a thread cannot be started.
pub(in crate::notify) fn build(
    settings: &ChannelSettings,
    around: &Surroundings,
) -> Result<Box<dyn Channel>> {
    let clock = around.clock.clone();
    let client = || Client::new(Limits::default(), clock.clone());
    let servers = || around.servers.iter();
    let stoppable = || servers().map(|server| server.clone().until(around.stop.clone()));
    let is_plain_allowed = settings.allow_plain_http;
    let name = &settings.name;
    Ok(match &settings.kind {
        ChannelKind::Desktop => Box::new(DesktopChannel::new(clock, around.stop.clone())),
        ChannelKind::Tmux { bell } => {
            Box::new(TmuxChannel::new(stoppable().collect(), *bell, clock))
        }
        ChannelKind::Bell => Box::new(BellChannel::new(stoppable().collect(), clock)),
        ChannelKind::Command { run } => {
            let stop = around.stop.clone();
            Box::new(CommandChannel::new(name.clone(), run.clone(), clock, stop))
        }
        ChannelKind::Webhook { url, secret } => {
            let secret = secret.clone();
            Box::new(Webhook::new(name, url, is_plain_allowed, secret, client())?)
        }
        ChannelKind::Ntfy { url, token, click } => {
            let (token, click) = (token.clone(), click.clone());
            Box::new(Ntfy::new(url, is_plain_allowed, token, click, client())?)
        }
        ChannelKind::Telegram {
            url,
            token,
            chat,
            answers,
            users,
        } => {
            let chat = match chat.parse() {
                Ok(id) => Chat::Id(id),
                Err(_) => Chat::Name(chat.clone()),
            };
            let (token, warnings) = (token.clone(), around.warnings.clone());
            let url = url.as_deref();
            let channel = Telegram::new(chat, token, url, is_plain_allowed, client(), warnings)?;
            match around.answers.as_ref().filter(|_| *answers) {
                Some(answers) => {
                    Box::new(channel.with_answers(users.clone(), Arc::clone(answers))?)
                }
                None => Box::new(channel),
            }
        }
    })
}

/// Returns what the tact must know of a channel.
pub(in crate::notify) fn traits_of(settings: &ChannelSettings) -> ChannelTraits {
    let size = |max, measure| Some(Size { max, measure });
    let (can_update, output) = match settings.kind {
        ChannelKind::Tmux { .. } | ChannelKind::Bell => (false, None),
        ChannelKind::Desktop => (true, None),
        ChannelKind::Telegram { .. } => (true, size(TELEGRAM_UNITS_MAX, utf16_units)),
        ChannelKind::Ntfy { .. } => (true, size(NTFY_BYTES_MAX, json_bytes)),
        ChannelKind::Webhook { .. } | ChannelKind::Command { .. } => {
            (true, size(OUTPUT_BYTES_MAX, str::len))
        }
    };
    ChannelTraits {
        name: settings.name.clone(),
        knows_ids: matches!(
            settings.kind,
            ChannelKind::Ntfy { .. } | ChannelKind::Webhook { .. }
        ),
        with_text: settings.text,
        can_update,
        output: output.filter(|_| settings.output),
    }
}

/// The most UTF-16 units of a message of Telegram (Bot API, sendMessage).
const TELEGRAM_UNITS_MAX: usize = 4096;

/// The most bytes of a message that ntfy shows as text (ntfy's documentation, limitations), and of which the whole request
/// is not refused.
const NTFY_BYTES_MAX: usize = 4000;

/// The most bytes of a message for programs, so that they need not read long ones.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

fn utf16_units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Returns the bytes of a text as a string of JSON.
fn json_bytes(text: &str) -> usize {
    text.chars().map(escaped_len).sum()
}
