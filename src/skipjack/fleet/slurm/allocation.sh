# From here on the script is the same for every request.
set -u
umask 077
# What is left of another cluster would send us there; a token's file is the way it is shared here.
unset RAY_ADDRESS RAY_AUTH_TOKEN
export RAY_AUTH_MODE=token
# Ray would take up to 30 s to say goodbye; nothing of ours is left in it when it is told to go.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

say() { printf 'skipjack: %s\n' "$*" >&2; }

# --- One node of Ray. Runs on each node, as a step of the job; the token comes by standard input.
start_node() {
    # Not local: the trap on EXIT needs them when the function is over.
    place=$1$SLURM_PROCID python=$2
    shift 2
    umask 077
    mkdir -- "$place" || exit 1
    trap 'rm -rf -- "$place"' EXIT
    cat > "$place/token" || exit 1
    export RAY_AUTH_TOKEN_PATH=$place/token
    # Ray's own directory in /tmp is shared by all users of a node, and by all jobs of one.
    "$python" -P -m skipjack.fleet.slurm.ray_node start --temp-dir="$place" \
        --num-cpus="$SLURM_CPUS_ON_NODE" --dashboard-agent-listen-port=0 --disable-usage-stats \
        --log-color=false --block "$@" < /dev/null &
    ray=$!
    trap 'kill -TERM "$ray" 2> /dev/null' TERM INT HUP
    while kill -0 "$ray" 2> /dev/null; do wait "$ray"; done
}

# --- The head: the node that this script runs on. Others must reach it, so loopback will not do.
head=$SLURMD_NODENAME
address_of_head() {
    local name found
    name=$(scontrol show node "$head" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p' | sed -n 1p)
    found=$(getent ahostsv4 "${name:-$head}" | awk '{ print $1; exit }')
    case $found in
        '' | 127.*) found=$(hostname -I | awk '{ print $1 }') ;;
    esac
    printf '%s' "${found:-127.0.0.1}"
}
listening() { (exec 3<> "/dev/tcp/$host/$1") 2> /dev/null; }
host=$(address_of_head)

# Two ports for each job, below those that systems give away by themselves (32768 and up).
port=$((20000 + SLURM_JOB_ID % 6000 * 2))
while listening "$port" || listening $((port + 1)); do
    port=$((20000 + (port - 20000 + 2) % 12000))
done

private=$(mktemp -d "/tmp/skj-$SLURM_JOB_ID.XXXXXX") || exit 1
od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$private/token"
export RAY_AUTH_TOKEN_PATH=$private/token

# A pause that starts no process: nothing may disturb what is timed on this node.
mkfifo "$private/quiet" && exec 9<> "$private/quiet" || exit 1
pause() { read -r -t 0.2 -u 9; }
runs() { kill -0 "$@" 2> /dev/null; }

# --- However this script ends, Ray ends with it. To end srun would kill its tasks at once; a signal
# to the steps (scancel leaves the script itself alone) lets Ray go in order and remove its files.
steps=()
end_ray() {
    local srun patience=$((SECONDS + 15))
    trap '' USR1 TERM
    [ ${#steps[@]} -eq 0 ] || scancel --quiet --signal=TERM "$SLURM_JOB_ID"
    for srun in ${steps[@]+"${steps[@]}"}; do
        while runs "$srun" && [ $SECONDS -lt $patience ]; do pause; done
        ! runs "$srun" || kill -TERM "$srun"
        wait "$srun"
    done
    steps=()
    rm -rf -- "$private"
}
trap end_ray EXIT

# --- USR1 comes before the time limit, TERM when the job is cancelled or preempted. Both times the
# coordinator gives its jobs back; one that does not manage is ended, and its leases run out.
ending='' child='' patience=0
ask_to_end() {
    ending=$1 patience=$((SECONDS + margin_s - 20))
    say "asked to end: $1"
    [ -z "$child" ] || kill -TERM "$child" 2> /dev/null
}
trap 'ask_to_end "time limit"' USR1
trap 'ask_to_end cancelled' TERM
# Waits for a child and gives its status. Bash would hold signals back while a command runs in the
# foreground.
attend() {
    child=$1
    [ -z "$ending" ] || kill -TERM "$child" 2> /dev/null # it came before the child had a name
    while runs "$child"; do
        if [ -n "$ending" ] && [ $SECONDS -ge $patience ]; then
            kill -KILL "$child" 2> /dev/null
        fi
        pause
    done
    child=''
    wait "$1"
}

# --- Ray on all nodes. A node that fails must not end the others.
step=(srun --overlap --kill-on-bad-exit=0 --wait=0 --ntasks-per-node=1)
on_node=(bash -c "$(declare -f start_node); start_node \"\$@\"" start_node)
[ "$gpus_per_node" -gt 0 ] && gpus=() || gpus=(--num-gpus=0)

"${step[@]}" --nodes=1 --ntasks=1 --nodelist="$head" "${on_node[@]}" "$private-h" "$python" \
    --head --node-ip-address="$host" --port="$port" --ray-client-server-port=$((port + 1)) \
    --include-dashboard=false ${gpus[@]+"${gpus[@]}"} < "$private/token" &
steps+=($!)
deadline=$((SECONDS + gather_s))
until listening "$port" || [ -n "$ending" ]; do
    if ! runs "${steps[0]}" || [ $SECONDS -gt $deadline ]; then
        say "Ray did not start on $head; see its words above"
        exit 1
    fi
    pause
done

workers=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -vxF -- "$head" | paste -sd, -)
if [ -n "$workers" ]; then
    others=$((SLURM_JOB_NUM_NODES - 1))
    "${step[@]}" --nodes="$others" --ntasks="$others" --nodelist="$workers" "${on_node[@]}" \
        "$private-w" "$python" --address="$host:$port" ${gpus[@]+"${gpus[@]}"} < "$private/token" &
    steps+=($!)
fi

# --- The work. Between two commands a signal may come, so `ending` is asked before each.
status=0
if [ -z "$ending" ]; then
    "$python" -P -m skipjack.fleet.slurm.gathering "$host:$port" "$SLURM_JOB_NUM_NODES" \
        $((deadline - SECONDS)) < /dev/null &
    attend $!
    status=$?
    [ $status -ne 3 ] || say "going on with the nodes that are there"
    if [ -z "$ending" ] && [ $status -ne 0 ] && [ $status -ne 3 ]; then
        say "Ray on $head cannot be reached at $host:$port"
        exit 1
    fi
fi
if [ -z "$ending" ]; then
    "${coordinator[@]}" --address "$host:$port" < /dev/null &
    attend $!
    status=$?
fi

if [ "$ending" = "time limit" ] && [ "$most_restarts" -gt 0 ]; then
    if [ "${SLURM_RESTART_COUNT:-0}" -ge "$most_restarts" ]; then
        say "work is left, but the job was started again $most_restarts times; submit it anew"
        exit 1
    fi
    end_ray
    say "work is left: back into the queue"
    scontrol requeue "$SLURM_JOB_ID" && exit 0
    say "Slurm does not take the job back; submit it anew"
    exit 1
fi
[ "$ending" != "time limit" ] || say "work may be left: submit the same again to continue"
exit $status
