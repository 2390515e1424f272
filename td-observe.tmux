#!/bin/sh
# The plugin for tmux's plugin manager, which runs this file when tmux reads its configuration. It has the keys and the
# counts that `td-observe tmux` prints, as the options @td-observe-… say, and starts the observer.

option() {
    value=$(tmux show-option -gqv "@td-observe-$1")
    printf '%s' "${value:-$2}"
}

program=$(option command td-observe)
if ! command -v "$program" >/dev/null; then
    tmux display-message -d 5000 "td-observe: the program $program is not installed, or not in the PATH of tmux"
    exit 0
fi

# The user's own binding of a key wins, unless an option asks for the key.
key() {
    asked=$(option "$1" '')
    if [ -n "$asked" ]; then
        printf '%s' "$asked"
    elif tmux list-keys -T prefix | grep -E "^bind-key +(-[rN] +)?-T prefix +$2 " |
        grep -qvF -e "$program tui" -e "$program next "; then
        printf 'none'
    else
        printf '%s' "$2"
    fi
}

set -- --program "$program" --key "$(key key B)" --next-key "$(key next-key N)"
format=$(option format '')
[ -z "$format" ] || set -- "$@" --format "$format"
[ "$(option status on)" != off ] || set -- "$@" --no-status
here=$(cd "$(dirname "$0")" && pwd)
if ! lines=$("$program" tmux --while-exists "$here/td-observe.tmux" "$@" 2>&1); then
    tmux display-message -d 5000 "$lines"
    exit 0
fi
printf '%s\n' "$lines" | tmux source-file -
if [ "$(option start on)" != off ] && ! "$program" status --print-socket >/dev/null 2>&1; then
    "$program" start --quiet >/dev/null 2>&1 && tmux set-option -g @td-observe-started 1
fi
