//! Finds the rows that ended with their tmux server, which faces show as one row that can be opened (pure).

use std::collections::BTreeMap;

use std::collections::BTreeSet;

use crate::board::{Attention, ExecutionKind, Row};

/// The fewest rows that are shown as one.
const ROWS_MIN: usize = 3;

/// The rows that ended with one tmux server, by their indexes on the board. The last one has the place of all: they are
/// looked at once one of them is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerEnd {
    pub members: Vec<usize>,
    name: String,
}

impl ServerEnd {
    /// Returns the name by which `status` finds the rows.
    pub fn name(&self) -> String {
        format!("server {}", self.name)
    }

    /// Returns what the row says.
    pub fn words(&self) -> String {
        format!("{} ended, {} panes", self.name(), self.members.len())
    }
}

/// Returns the ends of servers with which three or more rows ended. Rows that need the user are not among them.
pub(crate) fn server_ends(rows: &[Row]) -> Vec<ServerEnd> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(server) = &row.server
            && row.server_gone
            && row.attention() != Attention::NeedsYou
        {
            members.entry(server).or_default().push(index);
        }
    }
    let ends = members.into_iter();
    let ends = ends.filter(|(_, members)| members.len() >= ROWS_MIN);
    ends.map(|(server, members)| ServerEnd {
        members,
        name: socket_name(server, rows),
    })
    .collect()
}

/// Returns the name of a tmux server, also if the rows belong to no other.
fn socket_name(socket: &str, rows: &[Row]) -> String {
    short_of(socket, &sockets_of(rows))
}

/// Returns the sockets of the rows' servers.
fn sockets_of(rows: &[Row]) -> BTreeSet<&str> {
    let sockets = rows.iter().filter_map(|row| row.server.as_deref());
    sockets.collect()
}

/// Returns the short name of a tmux server among others.
fn short_of(socket: &str, sockets: &BTreeSet<&str>) -> String {
    let last = |socket: &str| socket.rsplit('/').next().unwrap_or(socket).to_owned();
    let mut same = sockets.iter().filter(|other| last(other) == last(socket));
    match same.nth(1) {
        Some(_) => socket.to_owned(),
        None => last(socket),
    }
}

/// Returns what stands before the name of each row, with its separator: its host, and its tmux server if those of its host
/// are several. A server has the name of its socket, as for `-L`, or the path of the socket if several have the same name.
pub(crate) fn origins(rows: &[Row]) -> Vec<String> {
    let mut sockets: BTreeMap<Option<&str>, BTreeSet<&str>> = BTreeMap::new();
    for row in rows {
        let of_host = sockets.entry(row.host.as_deref()).or_default();
        of_host.extend(row.server.as_deref());
    }
    let origin = |row: &Row| {
        if row.kind == ExecutionKind::Host {
            return String::new();
        }
        let host = row.host.as_ref().map(|host| format!("{host}/"));
        let servers = sockets.get(&row.host.as_deref());
        let servers = servers.filter(|sockets| sockets.len() > 1);
        let server = row.server.as_deref().zip(servers);
        let server = server.map(|(socket, sockets)| format!("{}:", short_of(socket, sockets)));
        host.unwrap_or_default() + &server.unwrap_or_default()
    };
    rows.iter().map(origin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{RowKey, RowState};
    use crate::timestamp::Timestamp;

    /// Returns the row of a pane that ended, perhaps with its server.
    fn row(pane: &str, server: &str, server_gone: bool) -> Row {
        let key = RowKey {
            execution_id: "s".into(),
            part: Some(pane.to_owned()),
        };
        let at = Timestamp::from_micros(0);
        let mut row = Row::new(&key, "s".to_owned(), ExecutionKind::Pane, at);
        row.server = Some(server.to_owned());
        row.state = RowState::Exited;
        (row.ended, row.server_gone) = (true, server_gone);
        row
    }

    #[test]
    fn three_rows_that_ended_with_their_server_are_one() {
        let mut rows = vec![
            row("%0", "/tmp/tmux-0/work", true),
            row("%1", "/tmp/tmux-0/work", false),
            row("%2", "/tmp/tmux-0/work", true),
            row("%0", "/tmp/tmux-0/default", true),
            row("%1", "/tmp/tmux-0/default", true),
        ];
        assert_eq!(server_ends(&rows), []);
        rows.push(row("%3", "/tmp/tmux-0/work", true));
        let ends = server_ends(&rows);
        let shown: Vec<_> = ends.iter().map(|end| (end.words(), &end.members)).collect();
        assert_eq!(
            shown,
            [("server work ended, 3 panes".to_owned(), &vec![0, 2, 5])]
        );
        // A pane that failed late needs the user, and stays a row of its own.
        rows[2].exit_status = Some(1);
        rows[2].began = Some(Timestamp::from_micros(-60_000_000));
        assert_eq!(rows[2].attention(), Attention::NeedsYou);
        assert_eq!(server_ends(&rows), []);
    }

    #[test]
    fn a_row_is_named_after_its_host_and_its_server_if_there_are_several_there() {
        let mut rows = vec![
            row("%0", "/tmp/tmux-0/work", false),
            row("%0", "web:/tmp/tmux-0/work", false),
            row("%1", "web:/tmp/tmux-0/play", false),
            row("%2", "db:/tmp/tmux-0/work", false),
        ];
        for (row, host) in rows
            .iter_mut()
            .zip([None, Some("web"), Some("web"), Some("db")])
        {
            row.host = host.map(str::to_owned);
        }
        assert_eq!(origins(&rows), ["", "web/work:", "web/play:", "db/"]);
        rows[3].kind = ExecutionKind::Host;
        assert_eq!(origins(&rows)[3], "");
    }

    #[test]
    fn servers_of_one_name_are_told_apart() {
        let rows: Vec<Row> = ["/tmp/a/work", "/tmp/b/work"]
            .iter()
            .flat_map(|server| ["%0", "%1", "%2"].map(|pane| row(pane, server, true)))
            .collect();
        let names: Vec<String> = server_ends(&rows).iter().map(ServerEnd::name).collect();
        assert_eq!(names, ["server /tmp/a/work", "server /tmp/b/work"]);
    }
}
