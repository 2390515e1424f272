//! Descriptions of agents: prompts, tools, turns, states (pure).

use super::description::{Description, with_text};
use super::phrases::duration;
use crate::event::{AgentState, EnumOrUnknown, StateSource, TdEvent, TurnEvidence};
use crate::face::tone::Tone;

pub(super) fn describe(event: &TdEvent, is_verbose: bool) -> Option<Description> {
    let labelled = Description::labelled;
    Some(match event {
        TdEvent::PromptSent { prompt_summary, .. } => {
            labelled("prompt", Tone::Plain, prompt_summary.clone())
        }
        TdEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            ..
        } => {
            let text = match (input_tokens, output_tokens) {
                // Agents that print plain text do not report counts.
                (0, 0) => "complete".to_owned(),
                _ => format!("{input_tokens} tokens read, {output_tokens} written"),
            };
            labelled("response", Tone::Dim, text)
        }
        TdEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
            ..
        } => labelled("tool", Tone::Plain, with_text(tool_name, tool_args_summary)),
        TdEvent::ToolCallCompleted {
            tool_name,
            success,
            result_summary,
            duration_ms,
            ..
        } => {
            let (tone, text) = tool_result(tool_name, *success, *duration_ms);
            labelled("tool", tone, with_text(&text, result_summary))
        }
        TdEvent::TurnCompleted {
            marker,
            pane: None,
            agent_id,
            ..
        } => {
            let agent = agent_id.as_deref().map(|id| format!("{id} "));
            let text = format!("{}ended: {marker}", agent.unwrap_or_default());
            labelled("turn", Tone::Good, text)
        }
        TdEvent::TurnCompleted { evidence, .. } => {
            // A report by the agent itself needs no evidence.
            let is_report = |evidence: &&EnumOrUnknown<TurnEvidence>| {
                **evidence == TurnEvidence::Transcript || **evidence == TurnEvidence::Status
            };
            let evidence = evidence.as_ref().filter(|evidence| !is_report(evidence));
            let evidence = evidence.map(|evidence| format!(" ({evidence})"));
            let text = format!("turn completed{}", evidence.unwrap_or_default());
            Description::statement(Tone::Good, text)
        }
        TdEvent::AgentRegistered {
            agent_id,
            output_file,
            ..
        } => labelled("agent", Tone::Dim, format!("{agent_id}: {output_file}")),
        TdEvent::AgentCompleted {
            agent_id,
            result,
            evidence,
            ..
        } => {
            let text = format!("{agent_id} COMPLETED ({evidence})");
            labelled("agent", Tone::Good, with_text(&text, result))
        }
        TdEvent::AgentFailed {
            agent_id,
            error,
            evidence,
            ..
        } => {
            let text = format!("{agent_id} FAILED ({evidence})");
            labelled("agent", Tone::Alarm, with_text(&text, error))
        }
        TdEvent::AgentState { .. } => describe_state(event, is_verbose)?,
        _ => return None,
    })
}

fn describe_state(event: &TdEvent, is_verbose: bool) -> Option<Description> {
    let TdEvent::AgentState {
        state,
        agent,
        evidence,
        source,
        asks,
        detail,
        ..
    } = event
    else {
        return None;
    };
    let known = state.known();
    let tone = match known {
        Some(AgentState::Waiting) => Tone::Caution,
        Some(AgentState::Error | AgentState::Limited) => Tone::Alarm,
        Some(AgentState::Done) => Tone::Good,
        // Other states are visible in the agent's output.
        _ => Tone::Dim,
    };
    let is_source = |by: StateSource| source.as_ref().is_some_and(|source| *source == by);
    // For the ends and errors of turns in a transcript, there are separate events.
    let has_own_event = is_source(StateSource::Transcript)
        && matches!(
            known,
            Some(AgentState::Done | AgentState::Error | AgentState::Limited)
        );
    // An interrupted turn has no other end.
    let is_interrupted = known == Some(AgentState::Idle)
        && agent.is_some()
        && is_source(StateSource::Transcript)
        && !is_verbose;
    let text = match agent {
        // Logs of earlier versions name the agent in the evidence.
        None => format!("agent {state}: {evidence}"),
        Some(agent) => {
            let reason = asks
                .as_ref()
                .or(detail.as_ref().filter(|_| known != Some(AgentState::Done)));
            let reason = reason.map(|reason| match reason.split_once(": ") {
                // The name of the rule that matched the screen matters only to authors of rules.
                Some((_, row))
                    if is_source(StateSource::Screen) && !is_verbose && asks.is_none() =>
                {
                    row.trim()
                }
                _ => reason.as_str(),
            });
            let reason = reason.filter(|_| !is_interrupted);
            let reason = reason.map(|reason| format!(": {reason}"));
            let source = source.as_ref().filter(|_| is_verbose);
            let evidence = source.map(|source| format!(" ({source}, {evidence})"));
            let phrase = match is_interrupted {
                true => "interrupted",
                false => agent_phrase(known).unwrap_or(state.as_str()),
            };
            let evidence = evidence.unwrap_or_default();
            format!("{agent} {phrase}{evidence}{}", reason.unwrap_or_default())
        }
    };
    let is_detail = (tone == Tone::Dim || has_own_event) && !is_interrupted;
    Some(Description::statement(tone, text).detail_if(is_detail))
}

/// Returns the phrase for a state in which an agent needs its user.
pub(in crate::face) fn agent_phrase(state: Option<AgentState>) -> Option<&'static str> {
    Some(match state? {
        AgentState::Waiting => "waits for you",
        AgentState::Error => "stopped with an error",
        AgentState::Limited => "reached a limit",
        AgentState::Working | AgentState::Idle | AgentState::Done => return None,
    })
}

/// Returns the agent of an `AgentState`, and its question or the evidence for the state. Logs of earlier
/// versions have both in the evidence: `claude choice (confirmed): 1. Yes`.
pub(in crate::face) fn agent_and_detail(event: &TdEvent) -> (&str, &str) {
    let TdEvent::AgentState {
        evidence,
        agent,
        asks,
        detail,
        ..
    } = event
    else {
        return ("", "");
    };
    match agent {
        Some(agent) => {
            let detail = asks.as_ref().or(detail.as_ref());
            (agent, detail.map_or("", |detail| detail.as_str()))
        }
        None => {
            let evidence = evidence.as_str();
            let agent = evidence.split(' ').next().unwrap_or_default();
            let detail = evidence.split_once("): ").map(|(_, detail)| detail);
            (agent, detail.unwrap_or(evidence))
        }
    }
}

/// Returns the result of a tool call with its duration.
pub(in crate::face) fn tool_result(name: &str, success: bool, duration_ms: u64) -> (Tone, String) {
    let (tone, word) = match success {
        true => (Tone::Dim, "done"),
        false => (Tone::Caution, "FAILED"),
    };
    let text = format!("{name} {word} after {}", duration(duration_ms));
    (tone, text)
}
