# An agent that needs its user: it asks before it changes anything, and does what it is told.
sleep 1
echo "> Tidy up the notes"
sleep 1
echo "* Plan: read the notes, propose a change, ask, apply it"
sleep 1
notes=$(mktemp) || exit 1
printf 'buy milk\nbuy milk\ncall home\n' >"$notes"
echo "* Tool: sort -u notes"
echo "  $(sort -u "$notes" | wc -l) of $(wc -l <"$notes") lines are different"
sleep 1
printf 'Remove the line that is there twice? [y/N] '
read -r answer
case $answer in
y | Y | yes)
    sort -u "$notes" >"$notes.new" && mv "$notes.new" "$notes"
    echo "* Tool: sort -u notes > notes"
    sleep 1
    sed 's/^/  /' "$notes"
    echo "The notes are tidy."
    ;;
*)
    echo "Nothing was changed."
    ;;
esac
rm -f "$notes"
echo "[Output Complete]"
sleep 3
