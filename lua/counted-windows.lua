-- Windows that each begin at a moment and count what is used until they end; shared by the algorithms that differ only
-- in when a window begins.
--
-- KEYS   one string a charge, "<window ms>:<start ms>:<used>," for each window that has not ended: all of the charge's
--        limits, and those of a configuration before it; with ":<end ms>" before the comma, if that is not <window ms>
--        after the start. What is remembered of refusals is such an entry too, of 0 ms:
--        "0:<until ms>:<refusals>,". A key expires its longest window after it was last written, or when that or a
--        window ends that a clock which stepped back has made longer.
-- ARGV   charge: limit, window in ms, and so on for each limit. A limit may be "<limit> <end ms> …", for `start_of`.
-- Reply  for each limit: units left, ms until the window ends, ms until `wanted` units are left (0: now).
--
-- Takes limit_state and `start_of(now, window, limit)`, in ms, which may also return when the window ends. A window
-- that has begun runs until its end by the clock, even if the clock steps back: it then lasts longer, never shorter.
local limit_state = ...

local function windows_not_ended(text, now)
  local windows = {}
  for window, start, used, ends in string.gmatch(text or '', '(%d+):(%d+):(%d+):?(%d*)') do
    window, start = tonumber(window), tonumber(start)
    ends = tonumber(ends) or start + window
    if ends > now then
      windows[window] = { start = start, ends = ends, used = tonumber(used) }
    end
  end
  return windows
end

return function(start_of)
  local function peek(key, now_us, wanted, from, to, reply)
    local now = math.floor(now_us / 1000)
    local windows = windows_not_ended(redis.call('GET', key), now)
    local state = { now = now, windows = windows, available = math.huge, reply = reply }
    for i = from, to, 2 do
      local limit, window = tonumber(ARGV[i]) or ARGV[i]:match('%d+') + 0, ARGV[i + 1] + 0
      local count = windows[window]
      if not count then
        local start, ends = start_of(now, window, ARGV[i])
        count = { start = start, ends = ends or start + window, used = 0, is_unused = true }
        windows[window] = count
      end
      count.is_of_charge = true
      local ends_in = count.ends - now
      limit_state(state, wanted, {
        limit = limit,
        window = window,
        used = count.used,
        reset_ms = ends_in,
        freed_after = function()
          return ends_in
        end,
      })
    end
    local penalty = windows[0]
    return state.available, state, nil, penalty and penalty.used, penalty and penalty.start
  end

  local function write(key, windows, now)
    local ttl, text = 0, {}
    for window, count in pairs(windows) do
      local entry = string.format('%.0f:%.0f:%.0f', window, count.start, count.used)
      local is_usual = count.ends == count.start + window
      text[#text + 1] = is_usual and entry or string.format('%s:%.0f', entry, count.ends)
      -- Longer than until its end: a clock that steps back over that would find the window unused.
      ttl = math.max(ttl, window, count.ends - now)
    end
    redis.call('SET', key, table.concat(text, ','), 'PX', string.format('%.0f', ttl))
  end

  local function commit(key, state, amount, _, _, refusals, until_ms)
    for window, count in pairs(state.windows) do
      if count.is_of_charge then
        count.used = count.used + amount
      end
      -- A refusal begins no window.
      if until_ms and count.is_unused then
        state.windows[window] = nil
      end
    end
    if until_ms then
      state.windows[0] = { start = until_ms, ends = until_ms, used = refusals }
    end
    write(key, state.windows, state.now)
  end

  local function settle(key, now_us, charged_ms, difference, from, to)
    local now = math.floor(now_us / 1000)
    local windows = windows_not_ended(redis.call('GET', key), now)
    local is_settled = false
    for i = from + 1, to, 2 do
      local count = windows[ARGV[i] + 0]
      -- A window that began later knows nothing of the charge.
      if count and count.start <= charged_ms then
        count.used = math.max(0, count.used + difference)
        is_settled = true
      end
    end
    if is_settled then
      write(key, windows, now)
    end
  end

  return { peek = peek, commit = commit, settle = settle }
end
