// What the page says, in its two languages, and how it writes figures. "a|b": one, and several.
"use strict";

const TEXTS = {
    en: {
        title: "Computers",
        search: "Search computers",
        bulk: "Delete temporary",
        create: "New computer",
        column_computer: "Computer",
        column_last: "Last command",
        cpu: "CPU",
        memory: "Memory",
        processes: "Processes",
        disk: "Disk",
        summary: "{n} computer|{n} computers",
        summary_running: "{n} running",
        shown: "{n} of {all} shown",
        live: "Live",
        connecting: "Connecting",
        stale: "Last update {ago}",
        about: "{backend} backend, server {server}",

        creating: "creating", running: "running", stopped: "stopped", missing: "missing", failed: "failed", deleting: "deleting",
        restarting: "restarting", resetting: "resetting", gone: "gone", paused: "paused",
        temporary: "temporary",
        permanent: "permanent",
        elsewhere: "run by another server",
        no_network: "no network",
        network: "with network",
        removed_in: "removed in {time}",
        stopped_in: "stopped in {time}",
        created_ago: "created {ago}",
        used_ago: "used {ago}",
        never_run: "nothing run yet",
        exit: "exit {code}",
        running_for: "running for {time}",
        more_running: "and {n} more",
        just_now: "just now",
        ago: "{time} ago",
        not_enforced: "{limit} asked for, not enforced",
        no_limit: "no limit",
        no_value: "no figures",
        plot: "{what}, last 5 minutes: now {now}, at most {most}",
        sessions: "{n} session|{n} sessions",

        back: "All computers",
        restart: "Restart",
        reset: "Factory reset",
        remove: "Delete",
        cancel: "Cancel",
        close: "Close",
        dismiss: "Dismiss",
        retry: "Try now",
        expand: "Full screen",

        terminal: "Terminal of {id}",
        terminal_input: "Command for {id}",
        terminal_hint: "Enter runs · Shift+Enter: new line · ↑ ↓: history · Ctrl+C cancels · each command has a new shell",
        terminal_empty: "Commands that you run here, and what they print.",
        terminal_gone: "This computer is gone. What it printed stays here until you close it.",
        terminal_off: "It is {state}: commands can't run in it.",
        run: "Run",
        is_running: "running",
        cancelling: "cancelling",
        cancelled: "cancelled",
        timed_out: "timed out",
        by_signal: "ended by {signal}",
        oom: "out of memory",
        disk_full: "disk full",
        refused: "not run",
        stdout: "stdout",
        stderr: "stderr",
        base64: "base64",
        no_output: "no output",
        cut: "{omitted} left out here, of {total} in all.",
        cut_path: "{omitted} left out here, of {total} in all. The whole is in {path}.",
        new_empty: "This made the computer: it is new and empty.",
        replaced: "Bytes that are no text were replaced.",
        left_running: "Still running in the background: {pids}",
        cant_cancel: "The server doesn't list this command as running any more.",
        commands_running: "Running now",
        finished: "Finished: {what}.",

        confirm_restart: "Restart {id}?",
        confirm_restart_what: "Its processes end and it starts again. Its files are kept.",
        confirm_reset: "Reset {id} to its first state?",
        confirm_reset_what: "All of its files are replaced by those of its image, and its processes end. This can't be undone.",
        confirm_remove: "Delete {id}?",
        confirm_remove_what: "Its files are removed, and its processes end. This can't be undone.",
        confirm_busy: "{n} command is running in it and will be ended.|{n} commands are running in it and will be ended.",
        confirm_permanent: "It is permanent: somebody wanted it kept.",
        do_restart: "Restart {id}",
        do_reset: "Reset {id}",
        do_remove: "Delete {id}",
        confirm_bulk: "Delete {n} temporary computer?|Delete {n} temporary computers?",
        confirm_bulk_what: "Their files are removed, and their processes end. Permanent computers are kept.",
        do_bulk: "Delete {n} computer|Delete {n} computers",
        done_restart: "{id} has been restarted.",
        done_reset: "{id} is as new.",
        done_remove: "{id} has been deleted.",
        done_create: "{id} has been created.",
        found_create: "{id} was there already.",
        failed_restart: "{id} could not be restarted.",
        failed_reset: "{id} could not be reset.",
        failed_remove: "{id} could not be deleted.",
        failed_cancel: "The command could not be cancelled.",

        create_title: "New computer",
        create_name: "Name",
        create_name_hint: "a-z, 0-9 and -, at most 63; empty: a random one",
        create_kind: "How long it lasts",
        create_temporary: "Temporary",
        create_temporary_hint: "removed when its session ends",
        create_permanent: "Permanent",
        create_permanent_hint: "kept, with its files, until it is deleted",
        description: "Description",
        create_more: "Resources and environment",
        create_life: "Lifetime",
        image: "Image",
        cpus: "CPUs",
        pids: "Processes",
        network_choice: "Network",
        as_server: "as the server has it",
        on: "on",
        off: "off",
        env: "Environment",
        env_hint: "NAME=value, one per line",
        env_wrong: "Each line of the environment is NAME=value. This one isn't: {line}",
        ttl: "Remove after",
        idle_timeout: "When idle for",
        seconds: "seconds",
        on_idle: "Then",
        on_idle_stop: "stop it, keep its files",
        on_idle_delete: "delete it",
        create_do: "Create",
        creating_now: "Creating",

        empty_title: "No computers yet",
        empty_what: "A computer is an isolated Linux machine in which an agent runs commands. The first command makes one:",
        empty_ask: "Run uname -a in a sandbox computer, and tell me what it says.",
        empty_ask_label: "Ask your agent, for example",
        empty_or: "Or make one yourself, and use its terminal here.",
        empty_temporary: "Temporary computers go when their session ends. They need no tidying.",
        empty_permanent: "Permanent ones keep their name and files until somebody deletes them.",
        empty_here: "Whatever runs shows up here: processor, memory, the last command, its exit code.",
        nothing_found: "Nothing matches “{what}”",
        nothing_found_what: "Names, descriptions, images, states and last commands are searched.",
        clear_search: "Clear the search",

        notices: "Problems",
        offline: "The server doesn't answer",
        offline_what: "What you see is from {ago}. Next try in {time}.",
        offline_never: "Nothing has been received yet. Next try in {time}.",
        offline_do: "If this lasts, look whether the server still runs, and connect to it again in your client.",
        unusable: "The server refused",
        no_tools: "This host doesn't let the page call tools",
        no_tools_what: "So it can only show what it was given, and change nothing. Ask your agent to call computer_list, computer_create, or terminal_execute instead.",
        no_host: "No host answers",
        no_host_what: "This page is an MCP App: it works inside an MCP client that shows apps. Open it there with the tool computer_dashboard.",
        late: "The host gave up waiting. The command may still be running: then it is listed above, and can be cancelled there.",
        lost: "The connection to the server was lost, so it isn't known what became of the command.",
    },
    zh: {
        title: "计算机",
        search: "搜索计算机",
        bulk: "删除临时计算机",
        create: "新建计算机",
        column_computer: "计算机",
        column_last: "最近的命令",
        cpu: "CPU",
        memory: "内存",
        processes: "进程",
        disk: "磁盘",
        summary: "共 {n} 台",
        summary_running: "{n} 台运行中",
        shown: "显示 {n} / {all}",
        live: "实时",
        connecting: "正在连接",
        stale: "上次更新：{ago}",
        about: "{backend} 后端，服务器 {server}",

        creating: "创建中", running: "运行中", stopped: "已停止", missing: "缺失", failed: "故障", deleting: "删除中",
        restarting: "重启中", resetting: "重置中", gone: "已消失", paused: "已暂停",
        temporary: "临时",
        permanent: "永久",
        elsewhere: "由另一台服务器运行",
        no_network: "无网络",
        network: "有网络",
        removed_in: "{time}后删除",
        stopped_in: "{time}后停止",
        created_ago: "{ago}创建",
        used_ago: "{ago}使用",
        never_run: "尚未运行命令",
        exit: "退出码 {code}",
        running_for: "已运行 {time}",
        more_running: "另有 {n} 条",
        just_now: "刚刚",
        ago: "{time}前",
        not_enforced: "要求 {limit}，未强制执行",
        no_limit: "无限制",
        no_value: "无数据",
        plot: "{what}，最近 5 分钟：当前 {now}，最高 {most}",
        sessions: "{n} 个会话",

        back: "全部计算机",
        restart: "重启",
        reset: "恢复出厂",
        remove: "删除",
        cancel: "取消",
        close: "关闭",
        dismiss: "知道了",
        retry: "立即重试",
        expand: "全屏",

        terminal: "{id} 的终端",
        terminal_input: "在 {id} 中运行的命令",
        terminal_hint: "Enter 运行 · Shift+Enter 换行 · ↑ ↓ 历史 · Ctrl+C 取消 · 每条命令使用新的 shell",
        terminal_empty: "这里显示您运行的命令及其输出。",
        terminal_gone: "这台计算机已不存在。关闭之前，它的输出会保留在这里。",
        terminal_off: "它{state}，无法运行命令。",
        run: "运行",
        is_running: "运行中",
        cancelling: "正在取消",
        cancelled: "已取消",
        timed_out: "超时",
        by_signal: "被 {signal} 终止",
        oom: "内存不足",
        disk_full: "磁盘已满",
        refused: "未运行",
        stdout: "标准输出",
        stderr: "标准错误",
        base64: "base64",
        no_output: "没有输出",
        cut: "此处省略 {omitted}，共 {total}。",
        cut_path: "此处省略 {omitted}，共 {total}。完整内容在 {path}。",
        new_empty: "这条命令创建了该计算机：它是全新的、空的。",
        replaced: "非文本字节已被替换。",
        left_running: "仍在后台运行：{pids}",
        cant_cancel: "服务器上这条命令已不在运行。",
        commands_running: "正在运行",
        finished: "已结束：{what}。",

        confirm_restart: "重启 {id}？",
        confirm_restart_what: "其进程将结束，然后重新启动。文件会保留。",
        confirm_reset: "将 {id} 恢复到初始状态？",
        confirm_reset_what: "其全部文件将被镜像中的文件替换，进程将结束。此操作无法撤销。",
        confirm_remove: "删除 {id}？",
        confirm_remove_what: "其文件将被删除，进程将结束。此操作无法撤销。",
        confirm_busy: "其中有 {n} 条命令正在运行，将被终止。",
        confirm_permanent: "这是永久计算机：有人希望保留它。",
        do_restart: "重启 {id}",
        do_reset: "重置 {id}",
        do_remove: "删除 {id}",
        confirm_bulk: "删除 {n} 台临时计算机？",
        confirm_bulk_what: "它们的文件将被删除，进程将结束。永久计算机会保留。",
        do_bulk: "删除 {n} 台计算机",
        done_restart: "{id} 已重启。",
        done_reset: "{id} 已恢复如新。",
        done_remove: "{id} 已删除。",
        done_create: "{id} 已创建。",
        found_create: "{id} 已经存在。",
        failed_restart: "无法重启 {id}。",
        failed_reset: "无法重置 {id}。",
        failed_remove: "无法删除 {id}。",
        failed_cancel: "无法取消该命令。",

        create_title: "新建计算机",
        create_name: "名称",
        create_name_hint: "a-z、0-9 和 -，最多 63 个字符；留空则随机命名",
        create_kind: "保留多久",
        create_temporary: "临时",
        create_temporary_hint: "会话结束时删除",
        create_permanent: "永久",
        create_permanent_hint: "连同文件一直保留，直到被删除",
        description: "说明",
        create_more: "资源与环境",
        create_life: "生命周期",
        image: "镜像",
        cpus: "CPU 数",
        pids: "进程数",
        network_choice: "网络",
        as_server: "按服务器设置",
        on: "开",
        off: "关",
        env: "环境变量",
        env_hint: "每行一个 NAME=value",
        env_wrong: "环境变量每行应为 NAME=value。这一行不是：{line}",
        ttl: "多久后删除",
        idle_timeout: "空闲多久后",
        seconds: "秒",
        on_idle: "则",
        on_idle_stop: "停止，保留文件",
        on_idle_delete: "删除",
        create_do: "创建",
        creating_now: "正在创建",

        empty_title: "还没有计算机",
        empty_what: "计算机是一台隔离的 Linux 机器，智能体在其中运行命令。第一条命令就会创建一台：",
        empty_ask: "在沙箱计算机里运行 uname -a，告诉我结果。",
        empty_ask_label: "例如，对您的智能体说",
        empty_or: "也可以自己新建一台，并在这里使用它的终端。",
        empty_temporary: "临时计算机随会话结束而消失，无需清理。",
        empty_permanent: "永久计算机保留名称和文件，直到有人删除它。",
        empty_here: "运行情况都显示在这里：处理器、内存、最近的命令及其退出码。",
        nothing_found: "没有与“{what}”匹配的计算机",
        nothing_found_what: "搜索范围：名称、说明、镜像、状态和最近的命令。",
        clear_search: "清除搜索",

        notices: "问题",
        offline: "服务器没有响应",
        offline_what: "您看到的是{ago}的数据。{time}后重试。",
        offline_never: "尚未收到任何数据。{time}后重试。",
        offline_do: "如果一直如此，请检查服务器是否仍在运行，并在客户端中重新连接。",
        unusable: "服务器拒绝了请求",
        no_tools: "此宿主不允许页面调用工具",
        no_tools_what: "因此页面只能显示收到的内容，无法更改。请让您的智能体改用 computer_list、computer_create 或 terminal_execute。",
        no_host: "没有宿主响应",
        no_host_what: "此页面是 MCP 应用，需要在支持应用的 MCP 客户端中运行。请在那里用 computer_dashboard 工具打开。",
        late: "宿主已停止等待。命令可能仍在运行：若是如此，它会列在上方，可在那里取消。",
        lost: "与服务器的连接已断开，无法得知命令的结果。",
    },
};

let language = "en";

// A locale is a BCP 47 tag; what isn't Chinese is English. Says whether that changed anything.
function setLanguage(locale) {
    const next = /^zh\b/i.test(String(locale)) ? "zh" : "en";
    const changed = next !== language;
    language = next;
    document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
    return changed;
}

function t(key, values = {}) {
    const forms = TEXTS[language][key].split("|");
    const text = forms.length > 1 && values.n !== 1 ? forms[1] : forms[0];
    return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

const STATES = ["creating", "running", "stopped", "missing", "failed", "deleting", "restarting", "resetting", "gone", "paused"];

// A state that isn't known is shown as the server calls it.
function stateText(state) {
    return STATES.includes(state) ? t(state) : String(state);
}

function joined(parts) {
    return parts.filter(Boolean).join(" · ");
}

// What is to stay on one line.
function unbroken(text) {
    return text.replaceAll(" ", "\u00a0");
}

function bytesText(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    for (; bytes >= 1023.5 && unit < units.length - 1; unit++) bytes /= 1024;
    return `${bytes >= 99.5 || unit === 0 ? Math.round(bytes) : Number(bytes.toPrecision(2))} ${units[unit]}`;
}

function percentText(percent) {
    return `${percent > 0 && percent < 9.95 ? percent.toFixed(1) : Math.round(percent)} %`;
}

// Two units at most: 12 ms, 1.4 s, 2 min 5 s, 3 h 20 min, 4 d 2 h.
function durationText(ms) {
    const zh = language === "zh";
    if (ms < 1000) return zh ? `${Math.round(ms)} 毫秒` : `${Math.round(ms)} ms`;
    if (ms < 9950) return `${(ms / 1000).toFixed(1)} ${zh ? "秒" : "s"}`;
    return secondsText(ms / 1000);
}

function secondsText(seconds) {
    const [d, h, min, s] = language === "zh" ? ["天", "小时", "分钟", "秒"] : ["d", "h", "min", "s"];
    let rest = Math.max(0, Math.round(seconds));
    const parts = [];
    for (const [size, unit] of [[86400, d], [3600, h], [60, min], [1, s]]) {
        const count = Math.floor(rest / size);
        rest -= count * size;
        if (count > 0 || parts.length > 0) parts.push(count > 0 ? `${count} ${unit}` : null);
        if (parts.length === 2) break;
    }
    return parts.filter(Boolean).join(" ") || `0 ${s}`;
}

// A time past, coarse enough not to change with every look at it.
function agoText(ms) {
    if (ms < 5000) return t("just_now");
    const seconds = ms / 1000;
    const step = [[86400, 86400], [3600, 3600], [60, 60], [0, 5]].find(([from]) => seconds >= from)[1];
    return t("ago", { time: secondsText(Math.floor(seconds / step) * step) });
}
