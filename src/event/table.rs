//! The table of all events: documentation, type tag, class, and fields with their units.

/// Passes the table of all events to a macro.
///
/// A row has the event's documentation, its type tag, the name of the emitter's method, its class (`text` may
/// be merged and dropped under load, `lifecycle` never is), and its fields. The emitter's method takes the
/// fields before the semicolon as arguments; the others get their default value. A literal behind `|` is an
/// older name that readers accept. A blank separates two closing angle brackets, because a macro does not
/// split them. Long optional texts are boxed, because several of them in one event would increase the size of
/// all events.
macro_rules! event_table {
    ($callback:ident) => {
        $callback! {
            /// An agentic loop begins.
            LoopStarted loop_started lifecycle {
                /// The kind of loop, such as `ralph`.
                loop_type: String,
                /// The task, in the user's words.
                task_description | "task": String;
                /// The names of the phases ahead, in their order, if they are known; for a resumed loop, without those
                /// that are done.
                phases: Option<Vec<String> >,
            }
            /// A phase of a loop begins, or continues in a resumed loop.
            PhaseStarted phase_started lifecycle {
                /// The phase's number, from 0.
                phase_index: usize,
                /// The phase's name.
                phase_name: String,
                /// The number of phases of the loop.
                total_phases: usize,
            }
            /// An iteration of a loop begins.
            IterationStarted iteration_started lifecycle {
                /// The iteration's number in the loop, from 1.
                iteration: u32,
            }
            /// An iteration has ended.
            IterationCompleted iteration_completed lifecycle {
                /// The iteration's number in the loop, from 1.
                iteration: u32,
                /// The outcome of the iteration.
                outcome: IterationOutcome,
            }
            /// A loop has ended.
            LoopCompleted loop_completed lifecycle {
                /// True if the loop reached its goal.
                success: bool,
                /// The number of iterations that the loop took.
                total_iterations: u32,
            }
            /// A prompt was sent to the model.
            PromptSent prompt_sent lifecycle {
                /// The loop's iteration, from 1; for an agent in a pane, the number of its prompt.
                iteration: u32,
                /// The beginning of the prompt, at most 200 characters where this crate cuts it.
                prompt_summary: String,
                /// The length of the prompt in tokens, where the agent states it.
                token_count: Option<u64>;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// A piece of the model's answer.
            TokenReceived token_received text {
                /// The loop's iteration, from 1; for an agent in a pane, the number of its prompt.
                iteration: u32,
                /// The text: a piece of an answer, or a whole message of an agent in a pane.
                token: String;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// The model's answer is complete.
            ResponseCompleted response_completed lifecycle {
                /// The loop's iteration, from 1; for an agent in a pane, the number of its prompt.
                iteration: u32,
                /// The beginning of the answer, at most 200 characters where this crate cuts it.
                response_summary: String,
                /// Tokens that the model has read, as it reports them; 0 if unknown.
                input_tokens: u64,
                /// Tokens that the model has written, as it reports them; 0 if unknown.
                output_tokens: u64,
                /// True if the answer requests tools.
                has_tool_calls: bool;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// A tool call begins.
            ToolCallStarted tool_call_started lifecycle {
                /// The loop's iteration, from 1; for an agent in a pane, the number of its prompt.
                iteration: u32,
                /// The tool's name.
                tool_name: String,
                /// The beginning of the tool's arguments.
                tool_args_summary: String;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// A tool call has ended.
            ToolCallCompleted tool_call_completed lifecycle {
                /// The loop's iteration, from 1; for an agent in a pane, the number of its prompt.
                iteration: u32,
                /// The tool's name.
                tool_name: String,
                /// True if the tool succeeded.
                success: bool,
                /// The beginning of the tool's result or error.
                result_summary: String,
                /// The duration of the call in milliseconds.
                duration_ms: u64;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// The check of an iteration begins.
            ValidationStarted validation_started lifecycle {
                /// The iteration's number in the loop, from 1.
                iteration: u32,
                /// The command line of the check.
                command: String,
            }
            /// The check printed a line.
            ValidationOutput validation_output text {
                /// The iteration's number in the loop, from 1.
                iteration: u32,
                /// The line without its newline; a line beyond 64 KiB arrives in several events.
                line: String,
                /// True if the line was printed on standard error.
                is_stderr: bool,
            }
            /// The check has ended.
            ValidationCompleted validation_completed lifecycle {
                /// The iteration's number in the loop, from 1.
                iteration: u32,
                /// The exit code of the check: 128 plus the signal that ended it, 124 after a timeout.
                exit_code: i32,
                /// The duration of the check in milliseconds.
                duration_ms: u64,
            }
            /// An operation failed.
            Error error lifecycle {
                /// The operation or component that failed.
                context: String,
                /// The error message.
                message: String,
            }
            /// An operation met a problem and continued.
            Warning warning lifecycle {
                /// The operation or component that met the problem.
                context: String,
                /// The warning.
                message: String,
            }
            /// The observation of a tmux session begins: the output of its panes is observed from now on.
            SessionStarted session_started lifecycle {
                /// The session's name.
                session: String,
                /// The panes of the session that are observed.
                panes: Vec<PaneId>,
            }
            /// A tmux session was renamed.
            SessionRenamed session_renamed lifecycle {
                /// The session's previous name.
                from: String,
                /// The session's new name.
                to: String,
            }
            /// A tmux session has ended, or is no longer observed.
            SessionEnded session_ended lifecycle {
                /// The session's name.
                session: String,
                /// The reason why it is no longer observed.
                reason: EnumOrUnknown<SessionEndReason>,
                /// The exit status of the first program that failed, otherwise of the last one that ended, if it is
                /// known.
                exit_status: Option<i32>,
            }
            /// The observation of a pane begins.
            PaneOpened pane_opened lifecycle {
                /// The pane.
                pane: PaneId,
                /// The pane's width in character cells.
                width: u32,
                /// The pane's height in rows.
                height: u32,
                /// The program in the pane's foreground.
                command: String;
                /// True if the pane began while its server was observed; absent in older logs.
                is_new: Option<bool>,
            }
            /// A pane was resized.
            PaneResized pane_resized lifecycle {
                /// The pane.
                pane: PaneId,
                /// The pane's new width in character cells.
                width: u32,
                /// The pane's new height in rows.
                height: u32,
            }
            /// A pane has closed, or its program has ended.
            PaneClosed pane_closed lifecycle {
                /// The pane.
                pane: PaneId,
                /// The reason why it is no longer observed.
                reason: EnumOrUnknown<PaneCloseReason>,
                /// The exit status of the pane's program, if it is known.
                exit_status: Option<i32>,
            }
            /// Lines of a pane have settled.
            OutputUpdate output_update text {
                /// The pane.
                pane: PaneId,
                /// The number of the first line of the chunk. The line of the cursor is line 1 when
                /// observation begins.
                first_line: i64,
                /// Whole lines, each ended by `\n`; empty if only the number of the next line is
                /// reported.
                chunk: String;
                /// True at the end of the output of a program or of an agent's turn.
                is_complete: bool,
                /// The reason why the output is complete; absent otherwise.
                reason: Option<EnumOrUnknown<CompletionReason> >,
                /// The exit status of the pane's program, if it has ended and the status is known.
                exit_status: Option<i32>,
                /// The program's own colours, where the pane is streamed.
                styles: Styles,
                /// The program's own links (OSC 8), where the pane is streamed. A later revision of a line ends its
                /// links.
                links: Links,
            }
            /// The text of a line that is still on the screen has changed. The last revision wins.
            OutputRevised output_revised text {
                /// The pane.
                pane: PaneId,
                /// The line's number; lines of the baseline have the numbers 0 and below.
                line: i64,
                /// The whole new text of the line, without a newline; empty if its row vanished.
                text: String;
                /// The program's own colours, where the pane is streamed.
                styles: Styles,
            }
            /// Rows of a full-screen program's alternate screen have changed.
            ScreenUpdate screen_update text {
                /// The pane.
                pane: PaneId,
                /// The screen's width in character cells.
                width: u32,
                /// The screen's height in rows.
                height: u32,
                /// The position of the cursor, in character cells from the top left.
                cursor: Cursor,
                /// The changed rows.
                rows: Vec<ScreenRow>,
            }
            /// The user viewed a pane. Emitted when the pane comes into view, and at most once a minute while
            /// its content changes; at once when an agent in it is done.
            PaneSeen pane_seen lifecycle {
                /// The pane.
                pane: PaneId,
                /// The viewer.
                by: EnumOrUnknown<PaneViewer>,
            }
            /// A row of the board has a name beside its execution's, or another one.
            RowRenamed row_renamed lifecycle {
                /// The pane, for a pane of a session with several panes.
                pane: Option<PaneId>,
                /// The agent's id, for a background agent.
                agent_id: Option<String>,
                /// The name that its user would give it. Of a pane: that of its window, if the user has named the
                /// window, else the title that its agent has set, else its directory and the branch there. Of a
                /// background agent: its project and its first prompt.
                name: String,
            }
            /// The user dismissed a row of the board until its next change, or brought it back.
            RowDismissed row_dismissed lifecycle {
                /// The pane, for the row of a pane.
                pane: Option<PaneId>,
                /// The agent's id, for the row of a background agent.
                agent_id: Option<String>,
                /// True if the row is dismissed; false if it is back.
                dismissed: bool,
                /// The face with which the user did it.
                by: EnumOrUnknown<PaneViewer>,
            }
            /// Lines of a pane were printed but could not be observed.
            OutputGap output_gap lifecycle {
                /// The pane.
                pane: PaneId,
                /// The number of the line that follows the gap.
                first_line: i64,
                /// The number of lost lines, if it is known.
                lost_lines: Option<u64>,
                /// The reason why the lines could not be observed.
                reason: EnumOrUnknown<GapReason>,
                /// The certainty of the loss.
                evidence: EnumOrUnknown<GapEvidence>,
            }
            /// The log had to drop events.
            LogGap log_gap lifecycle {
                /// The number of the first dropped event.
                first_seq: u64,
                /// The number of the last dropped event.
                last_seq: u64,
            }
            /// A child process, or code in a kernel, starts. With a pane: a job in it, that is, a program
            /// that the pane's shell has started in the foreground, as the operating system's kernel or the
            /// shell itself (OSC 133) reports.
            ExecutionStarted execution_started lifecycle {
                /// The command line.
                command: String,
                /// The working directory, as an absolute path.
                cwd: String;
                /// The job's pane; absent for a child process of this program.
                pane: Option<PaneId>,
                /// The process id of a job in a pane, if it is known.
                pid: Option<u32>,
                /// The number of the kernel's cell, for code that a kernel runs.
                cell: Option<u32>,
                /// The kernel's verdict on the syntax of the code before it runs, if it gave one.
                verification: Option<EnumOrUnknown<Verification> >,
            }
            /// A child process or a cell printed text.
            ExecutionOutput execution_output text {
                /// The stream of the text.
                stream: EnumOrUnknown<OutputStream>,
                /// Several lines, or a part of a line.
                text: String,
            }
            /// A child process, code in a kernel, or a job in a pane has ended.
            ExecutionCompleted execution_completed lifecycle {
                /// The exit code, if the process exited and the code is known.
                exit_code: Option<i32>,
                /// The number of the signal that ended the process, if one did.
                signal: Option<i32>,
                /// The duration in milliseconds.
                duration_ms: u64;
                /// The job's pane; absent for a child process of this program.
                pane: Option<PaneId>,
                /// The process id of a job in a pane, if it is known.
                pid: Option<u32>,
                /// The number of a kernel's cell, whose exit code is 1 after an exception.
                cell: Option<u32>,
            }
            /// An agent finished its turn.
            TurnCompleted turn_completed lifecycle {
                /// The marker that ended the turn; empty for a pane whose agent printed none.
                marker: String,
                /// The beginning of the answer.
                summary: String;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
                /// The evidence for the end; absent for a marker.
                evidence: Option<EnumOrUnknown<TurnEvidence> >,
                /// The id of the session in the agent's own records, for a background agent.
                agent_id: Option<Box<String> >,
            }
            /// The observation of a background agent begins.
            AgentRegistered agent_registered lifecycle {
                /// The agent's id.
                agent_id: String,
                /// The path of the agent's output file.
                output_file: String;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// A background agent has finished its work.
            AgentCompleted agent_completed lifecycle {
                /// The agent's id.
                agent_id: String,
                /// The beginning of the agent's result, at most 2,000 characters.
                result: String,
                /// The record that shows the end; begins with `inferred` if none does.
                evidence: EndEvidence;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// A background agent has failed.
            AgentFailed agent_failed lifecycle {
                /// The agent's id.
                agent_id: String,
                /// The beginning of the error, at most 2,000 characters.
                error: String,
                /// The record that shows the failure; begins with `inferred` if none does.
                evidence: EndEvidence;
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
            }
            /// The state of an agent has changed, or the question that it asks.
            AgentState agent_state lifecycle {
                /// The agent's id, for a background agent.
                agent_id: Option<Box<String> >,
                /// The agent's pane, if the agent runs in one.
                pane: Option<PaneId>,
                /// The state.
                state: EnumOrUnknown<AgentState>,
                /// The certainty of the state.
                evidence: EnumOrUnknown<StateEvidence>;
                /// The agent's program, such as `claude`.
                agent: Option<Box<String> >,
                /// The source of the report.
                source: Option<EnumOrUnknown<StateSource> >,
                /// The command or the question that the agent asks the user about.
                asks: Option<Box<String> >,
                /// Details of the state, in the agent's own words.
                detail: Option<Box<String> >,
                /// The id of the question, while the agent waits; another question has another id.
                question_id: Option<Box<String> >,
                /// The question in full, while the agent waits.
                dialogue: Option<Box<Dialogue> >,
            }
            /// The number of shells and sub-agents that an agent has left running in the background has changed.
            BackgroundWork background_work lifecycle {
                /// The agent's pane.
                pane: Option<PaneId>,
                /// The number of shells.
                shells: u32,
                /// The number of sub-agents.
                agents: u32,
            }
            /// What a program in a pane reports of its progress, or of its children, has changed (`OSC 7501`): at most once a
            /// second. The state of the program is an `AgentState` event.
            ProgressReported progress_reported lifecycle {
                /// The pane.
                pane: PaneId,
                /// The progress in percent; absent if the program reports none.
                progress: Option<u32>,
                /// The children, at most 255; empty if the program reports none.
                children: Vec<ReportedChild>,
            }
            /// An agent is found in a pane, or, with `file`, its conversation: when the agent or the observation begins, and
            /// when the agent goes on with another conversation. If its last turn began before that, the other fields say
            /// what its transcript says of this turn. It is no turn of its own.
            ConversationFound conversation_found lifecycle {
                /// The agent's pane.
                pane: Option<PaneId>;
                /// The agent's program, such as `claude`.
                agent: Option<Box<String> >,
                /// The path of the conversation's file, without links in its directories.
                file: Option<Box<String> >,
                /// The end of what the agent has said in its last turn, at most 4 KiB.
                answer: Option<Box<String> >,
                /// The time at which its last turn began.
                turn_began: Option<Timestamp>,
                /// The time at which its last turn ended, not before the agent's process has begun, or has gone on with it;
                /// absent while it goes on.
                turn_ended: Option<Timestamp>,
                /// The time of its last words or tool, while its turn goes on.
                acted: Option<Timestamp>,
            }
            /// What an agent in a pane says or does now, as its screen shows it: at most once a second while it works.
            /// Its transcript has the same words later, when a message is complete.
            AgentActivity agent_activity text {
                /// The pane.
                pane: PaneId,
                /// The tool, or the last sentence, which may not be complete; one line of at most 200 characters.
                text: String,
            }
            /// The screen of an agent in a pane, as text: when the agent's state changes, and at
            /// most every 10 s while the screen changes.
            ScreenSnapshot screen_snapshot text {
                /// The pane.
                pane: PaneId,
                /// The screen's width in character cells.
                width: u32,
                /// The screen's height in rows.
                height: u32,
                /// All rows that are not blank.
                rows: Vec<ScreenRow>,
            }
            /// A source crashed and runs again.
            PollerRestarted poller_restarted lifecycle {
                /// The name of the source's thread.
                source: String,
                /// The message of the panic.
                cause: String,
            }
            /// The header of a log file. It is not part of the stream and never live.
            LogOpened log_opened lifecycle {
                /// The version of the wire format.
                schema: u32,
                /// The version of the program that writes the file.
                version: String,
                /// The name of the host.
                host: String,
                /// The process id of the writer.
                pid: u32,
                /// The number of the first event after the header.
                first_seq: u64,
            }
        }
    };
}
pub(crate) use event_table;
