//! `td-observe help`: prints chapters of the guide and the help of commands.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::aot::Shell;
use clap_complete::env::Shells;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::chapters::{CHAPTERS, Chapter, chapter_names, laid_out, page, terminal_width};
use super::command_line::{self, NotParsed, visible_subcommands};
use super::failure::Failure;
use super::known::{self, ASKS};

/// Prints a chapter, the help of a command, or the list of both.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode, Failure> {
    let names: Vec<String> = (words.iter())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let Some(first) = names.first() else {
        return super::output::print(&list());
    };
    let chapter = match names.len() {
        1 => CHAPTERS.iter().find(|chapter| chapter.name == first),
        _ => None,
    };
    match (help_of(&names), chapter) {
        (Some(help), None) => page(&sanitized(&help.render().to_string())),
        (None, Some(chapter)) => page(&sanitized(&rendered(chapter))),
        (Some(help), Some(chapter)) => {
            let rule = "-".repeat(79);
            let both = format!("{}\n{rule}\n\n{}", help.render(), rendered(chapter));
            page(&sanitized(&both))
        }
        (None, None) => Err(unknown(&names)),
    }
}

/// Returns the text of a chapter, laid out for a terminal if there is one.
fn rendered(chapter: &Chapter) -> Cow<'static, str> {
    match terminal_width() {
        Some(width) => laid_out(chapter.text, width).into(),
        None => chapter.text.into(),
    }
}

/// Returns the help of a command, if these words name one.
fn help_of(names: &[String]) -> Option<clap::Error> {
    let mut command = command_line::command();
    let mut named = &mut command;
    for name in names {
        named = named
            .find_subcommand_mut(name)
            .filter(|command| !command.is_hide_set())?;
    }
    let words = ["td-observe"]
        .into_iter()
        .chain(names.iter().map(String::as_str));
    match command_line::parse(words.chain(["--help"]).map(OsString::from)) {
        Err(NotParsed::Clap(help)) if !help.use_stderr() => Some(help),
        _ => None,
    }
}

/// Returns a list of the commands and chapters, one line each.
fn list() -> String {
    let command = command_line::command();
    let commands = visible_subcommands(&command).map(|command| {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        format!("  {:<12} {about}\n", command.get_name())
    });
    let chapters = CHAPTERS
        .iter()
        .map(|chapter| format!("  {:<12} {}\n", chapter.name, chapter.about));
    format!(
        "Commands (td-observe help COMMAND, or td-observe COMMAND --help):\n{}\n\
         Chapters of the guide (td-observe help TOPIC):\n{}",
        commands.collect::<String>(),
        chapters.collect::<String>()
    )
}

fn unknown(names: &[String]) -> Failure {
    let command = command_line::command();
    let commands = visible_subcommands(&command).map(clap::Command::get_name);
    let known: Vec<&str> = chapter_names()
        .map(|name| name as &str)
        .chain(commands)
        .collect();
    let typed = names.join(" ");
    let hint = known::suggestion(&typed, known);
    usage!(
        "help: there is no command or chapter {typed:?}{hint} the chapters are {}; \
         td-observe help lists all",
        chapter_names().collect::<Vec<_>>().join(", ")
    )
}

/// Sanitizes each line for a terminal.
fn sanitized(text: &str) -> String {
    let lines = text.lines().map(crate::face::one_line);
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

// `td-observe man`: writes a manual page for each command.

/// Writes the pages into a directory.
pub(super) fn write_manual(directory: &Path) -> Result<ExitCode, Failure> {
    if directory.as_os_str().is_empty() {
        return Err(usage!("man: the path of the directory is empty"));
    }
    let mut command = command_line::command();
    command.build();
    fs::create_dir_all(directory)
        .and_then(|()| write(&command, directory))
        .map_err(|error| usage!("cannot write manual pages to {directory:?}: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of its subcommands.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    let man = Man::new(command.clone())
        .source(concat!("td-observe ", env!("CARGO_PKG_VERSION")))
        .manual("td-observe");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // clap_mangen's synopsis names all options, without their values.
    let usage = command
        .clone()
        .render_usage()
        .to_string()
        .trim_start_matches("Usage: ")
        .to_owned();
    Roff::new()
        .control("SH", ["SYNOPSIS"])
        .text([roman(usage)])
        .to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if visible_subcommands(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    if command.get_after_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    // The text after the options begins with examples.
    let mut page = String::from_utf8_lossy(&page).into_owned();
    for title in ["Examples:", "Example:"] {
        let extra = format!("\n.SH EXTRA\n{title}\n");
        page = page.replacen(&extra, "\n.SH EXAMPLES\n", 1);
    }
    fs::write(directory.join(man.get_filename()), page)?;
    let subcommands = visible_subcommands(command);
    for subcommand in subcommands.filter(|subcommand| is_ours(command, subcommand)) {
        write(subcommand, directory)?;
    }
    Ok(())
}

/// Returns true if a subcommand is not the `help` that clap adds below each command with subcommands.
fn is_ours(command: &Command, subcommand: &Command) -> bool {
    subcommand.get_name() != "help" || command.get_name() == "td-observe"
}

// `td-observe completions`: prints the script for a shell, and answers its requests at run time.

pub(super) fn print_completions(shell: Shell) -> Result<ExitCode, Failure> {
    let failed = |error| failure!("cannot create the script: {error}");
    let program = program().map_err(failed)?;
    if shell == Shell::Bash {
        // Only a path with a NUL cannot be quoted, and no argument contains one.
        let quoted = shlex::try_quote(&program).unwrap_or("td-observe".into());
        // The script for bash, which splits words at colons; this script joins them again.
        return super::output::print(&include_str!("completion.bash").replace("PROGRAM", &quoted));
    }
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        completer
            .write_registration(ASKS, "td-observe", "td-observe", &program, &mut script)
            .map_err(failed)?;
    }
    super::output::print(&String::from_utf8_lossy(&script))
}

/// Returns the program as the script starts it: by name if it was found in `PATH`, else by its absolute path.
fn program() -> std::io::Result<String> {
    let name = std::env::args_os()
        .next()
        .map(PathBuf::from)
        .filter(|name| !name.as_os_str().is_empty());
    let name = name.unwrap_or_else(|| PathBuf::from("td-observe"));
    let path = match name.components().count() {
        1 => name,
        _ => std::path::absolute(name)?,
    };
    Ok(path.to_string_lossy().into_owned())
}

/// Answers a request of a completion script, if this process was started for one.
pub(super) fn answer_completion() -> Option<ExitCode> {
    let shell = std::env::var(ASKS).ok()?;
    let completer = Shells::builtins();
    let completer = completer.completer(&shell)?;
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<OsString> = words.collect();
    let directory = std::env::current_dir().ok();
    let mut out = Vec::new();
    // A shell cannot show an error, so a failure answers with no candidates.
    if !words.is_empty()
        && completer
            .write_complete(
                &mut command_line::command(),
                words,
                directory.as_deref(),
                &mut out,
            )
            .is_ok()
    {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(&out).and_then(|()| stdout.flush());
    }
    Some(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    mod guide {

        use super::super::*;

        /// Joins each line that ends in a backslash with the next one.
        fn joined(text: &str) -> String {
            let mut parts = text.split("\\\n");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| {
                format!("{} {}", text.trim_end(), part.trim_start())
            })
        }

        /// Splits a line into its commands, at pipes, redirections and `&&`.
        fn commands(line: &str) -> Vec<Vec<String>> {
            let words = shlex::split(line).unwrap_or_default();
            let ends = ["|", "&&", ">", "<", ">>"];
            let parts = words.split(|word| ends.contains(&word.as_str()));
            parts.map(<[String]>::to_vec).collect()
        }

        #[track_caller]
        fn assert_parses(line: &str, place: &str) -> usize {
            let ours = commands(line);
            let ours = ours
                .iter()
                .filter(|words| words.first().is_some_and(|word| word == "td-observe"));
            let mut count = 0;
            for words in ours {
                count += 1;
                match command_line::parse(words.iter().map(OsString::from)) {
                    Ok(_) => {}
                    Err(NotParsed::Clap(error)) if !error.use_stderr() => {}
                    Err(NotParsed::Clap(error)) => panic!("{place}: {line}: {error}"),
                    Err(NotParsed::Refused(failure)) => panic!("{place}: {line}: {failure:?}"),
                }
            }
            count
        }

        #[test]
        fn each_chapter_has_a_title_and_a_module() {
            for chapter in CHAPTERS {
                assert!(chapter.text.starts_with("# "), "{}", chapter.name);
                assert!(list().contains(chapter.about), "{}", chapter.name);
                let module = format!("pub mod {} {{}}", chapter.name);
                assert!(
                    include_str!("../guide/mod.rs").contains(&module),
                    "{module}"
                );
            }
        }

        #[test]
        fn all_examples_of_the_guide_parse() {
            let readme = ("README", include_str!("../../README.md"));
            let mut count = 0;
            for (name, text) in crate::cli::chapters::texts().chain([readme]) {
                let text = joined(text);
                let mut in_shell = false;
                for line in text.lines() {
                    match line.strip_prefix("```") {
                        Some(kind) => in_shell = kind == "sh",
                        None if in_shell => count += assert_parses(line, name),
                        None => {}
                    }
                }
                // References to other chapters are commands that work.
                for (_, rest) in text
                    .match_indices("`td-observe help ")
                    .map(|(at, found)| text.split_at(at + found.len()))
                {
                    let topic = rest.split('`').next().unwrap_or_default();
                    assert!(
                        topic == "TOPIC" || chapter_names().any(|name| name == topic),
                        "{name}: {topic}"
                    );
                }
            }
            assert!(count > 30, "{count}");
        }

        #[test]
        fn all_examples_of_the_help_parse() {
            let mut count = 0;
            for command in command_line::command().get_subcommands() {
                let text = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                for line in joined(&text).lines() {
                    let Some(example) = line.strip_prefix("  td-observe ") else {
                        continue;
                    };
                    // The description of an example follows two or more blanks.
                    let typed = example.trim_start().split("   ").next().unwrap_or_default();
                    let typed = typed.split("  ").next().unwrap_or_default();
                    let line = match shlex::split(typed) {
                        Some(_) => format!("td-observe {typed}"),
                        // An example with a multi-line string contains such blanks itself.
                        None => format!("td-observe {example}"),
                    };
                    count += assert_parses(&line, command.get_name());
                }
            }
            assert!(count > 50, "{count}");
        }
    }
}
