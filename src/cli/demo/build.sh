# A build: every file that is named was really read.
sleep 1
cd /usr/include 2>/dev/null && ls *.h >/dev/null 2>&1 || cd /etc || exit 1
objects=0
lines=0
for file in *; do
    [ -f "$file" ] && [ -r "$file" ] || continue
    [ "$objects" -lt 30 ] || break
    count=$(wc -l <"$file")
    echo "cc $file -> ${file%.*}.o ($count lines)"
    objects=$((objects + 1))
    lines=$((lines + count))
    sleep 0.2
done
echo "linked $objects objects from $lines lines of $(pwd)"
sleep 2
