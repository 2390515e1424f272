//! The settings of notifications: rules and channels, as the configuration gives them.

use super::rule::Rule;
use crate::agent_loop::Secret;

/// The rules, and the channels that they name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub rules: Vec<Rule>,
    pub channels: Vec<ChannelSettings>,
}

/// A channel of the configuration, `[channel.NAME]`.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSettings {
    pub name: String,
    pub kind: ChannelKind,
    /// Sends the words of rows, not only names and states.
    pub text: bool,
    /// Also sends what its rows print or say.
    pub output: bool,
    /// Sends unencrypted to other machines, too.
    pub allow_plain_http: bool,
}

/// What a channel is, and what it needs.
#[derive(Clone, Debug)]
pub(crate) enum ChannelKind {
    /// `notify-send`.
    Desktop,
    /// The status line of attached tmux clients, and their bell.
    Tmux { bell: bool },
    /// The bell of attached tmux clients alone.
    Bell,
    Ntfy {
        /// The address of the topic.
        url: String,
        token: Option<Secret>,
        /// What a tap on a notification opens.
        click: Option<String>,
    },
    Webhook {
        url: String,
        /// The key of the signature.
        secret: Option<Secret>,
    },
    Telegram {
        /// The address of the API, if it is another one.
        url: Option<String>,
        token: Secret,
        /// The number or the `@name` of the chat.
        chat: String,
        /// A waiting row's choices are buttons.
        answers: bool,
        /// The users who may press them.
        users: Vec<i64>,
    },
    Command {
        /// The command line for `sh`.
        run: String,
    },
}
