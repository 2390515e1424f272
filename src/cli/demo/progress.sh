# A progress bar that is rewritten in place over real checksums, and a question at the end.
sleep 1
echo "checking the files in /etc"
done=0
for file in /etc/*; do
    [ -f "$file" ] && [ -r "$file" ] || continue
    [ "$done" -lt 25 ] || break
    cksum "$file" >/dev/null
    done=$((done + 1))
    bar=$(printf '%*s' "$done" '' | tr ' ' '#')
    printf '\r[%-25s] %3d%%' "$bar" $((done * 4))
    sleep 0.2
done
printf '\n%s files are as they should be\n' "$done"
printf 'Restart the service? [y/N] '
sleep 3
