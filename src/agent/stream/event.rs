//! Events of an agent, without the agent's identity, which the caller adds (pure).

use crate::event::{ExecutionId, TdEvent};

/// An event that an agent's stream shows.
///
/// The fields are those of the [`TdEvent`] of the same name. Summaries are truncated to a few
/// hundred characters; a token count is 0 if the stream does not contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are those of the events of the same name"
)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A prompt was sent to the model.
    PromptSent {
        prompt_summary: String,
        token_count: u64,
    },
    /// A piece of the answer: a delta, or the whole text if there were no deltas.
    TokenReceived { token: String },
    /// A message of the model is complete; its usage is counted only here.
    ResponseCompleted {
        response_summary: String,
        input_tokens: u64,
        output_tokens: u64,
        has_tool_calls: bool,
    },
    /// A tool starts; reported once for each id.
    ToolCallStarted {
        tool_name: String,
        tool_args_summary: String,
    },
    /// A tool has returned a result. The name is `unknown` if its start was not read.
    ToolCallCompleted {
        tool_name: String,
        success: bool,
        result_summary: String,
        duration_ms: u64,
    },
    /// The agent finished its turn; `marker` is the evidence.
    TurnCompleted { marker: String, summary: String },
    /// The agent completed its work.
    AgentCompleted { result: String, evidence: String },
    /// The agent failed or was stopped, or its stream was cut off.
    AgentFailed { error: String, evidence: String },
    /// An anomaly, such as a broken record, a retry, or a tool without a result.
    Warning { context: String, message: String },
}

impl AgentEvent {
    /// Converts the event to that of this agent, in an iteration of this execution.
    pub fn into_event(self, execution_id: &ExecutionId, agent_id: &str, iteration: u32) -> TdEvent {
        let execution_id = execution_id.clone();
        let agent_id = || agent_id.to_owned();
        macro_rules! convert {
            ($($kind:ident $bound:tt => { $($field:ident $(: $value:expr)?),* };)*) => {
                match self {
                    $(Self::$kind $bound => TdEvent::$kind {
                        execution_id,
                        $($field $(: $value)?),*
                    }),*
                }
            };
        }
        convert! {
            PromptSent { prompt_summary, token_count } =>
                { iteration, prompt_summary, token_count, pane: None };
            TokenReceived { token } => { iteration, token, pane: None };
            ResponseCompleted { response_summary, input_tokens, output_tokens, has_tool_calls } =>
                { iteration, response_summary, input_tokens, output_tokens, has_tool_calls, pane: None };
            ToolCallStarted { tool_name, tool_args_summary } =>
                { iteration, tool_name, tool_args_summary, pane: None };
            ToolCallCompleted { tool_name, success, result_summary, duration_ms } =>
                { iteration, tool_name, success, result_summary, duration_ms, pane: None };
            TurnCompleted { marker, summary } =>
                { marker, summary, pane: None, evidence: None, agent_id: None };
            AgentCompleted { result, evidence } =>
                { agent_id: agent_id(), result, evidence: evidence.into(), pane: None };
            AgentFailed { error, evidence } =>
                { agent_id: agent_id(), error, evidence: evidence.into(), pane: None };
            Warning { context, message } => { context, message };
        }
    }
}
