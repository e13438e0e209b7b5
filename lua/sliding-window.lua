-- An exact sliding-window log on a stream, read as prefix sums.
--
-- KEYS   one stream a rule; it serves all of the rule's tiers. An entry's ID is <ms>-<total>, the total being all
--        that was ever admitted on this stream, the entry included; its one field holds the entry's own cost, under
--        the longest window (ms) that it is kept for. What a window holds is thus the difference of two totals.
--        What is remembered of refusals is a second field of the newest entry, <until ms> under <refusals>: an
--        admission takes it over, and a refusal adds an entry of cost 0 for it, of which no two follow each other.
-- ARGV   rule: limit, window in ms, and so on for each tier; then 1 if each tier is expected to hold many entries,
--        which changes what is read, but not what is decided.
-- Reply  for each tier: units left, ms until more are, ms until `wanted` units are (0: now).
--
-- Permits that may still be spent for `lease_ms` are entered as if spent when that has passed, so an entry may be dated
-- ahead. Whenever they are spent before, no window holds more than its limit: at the time of any later decision, all of
-- them that are younger than the window are counted.
--
-- A window is half-open, (now - window, now]: an entry exactly `window` old has gone. Because dates are rounded up and
-- now is rounded down, none goes a microsecond early.
--
-- The key lives until a longest window after the end of the epoch in which its newest entry is dated. So it outlasts
-- all entries by that window, whatever the clock does and however far ahead they are dated, and its TTL is only set
-- once an epoch.

-- Redis runs this chunk again for each decision, so what it creates costs time: tables, functions, and locals that they
-- share. What only a refusal needs is created by it. An entry is read only if it is needed; `+ 0` makes a number of a
-- text faster than tonumber(), and `%d` prints one faster than `%.0f`, and as exactly wherever a C long has 64 bits.
-- Redis itself prints numbers that it is handed with `%.17g`, which takes longest.

local function ms_and_total(entry)
  local id = entry[1]
  local dash = id:find('-', 1, true)
  return id:sub(1, dash - 1) + 0, id:sub(dash + 1) + 0
end

local function peek(key, now_us, wanted, rule, reply)
  local now = (now_us - now_us % 1000) / 1000
  -- Eight: tiers that hold fewer need no read of their own. One, if each is going to need it anyway.
  local at_once = #rule % 2 == 1 and '1' or '8'
  local recent = redis.call('XREVRANGE', key, '+', '-', 'COUNT', at_once)
  local is_all = #recent < at_once + 0
  local count, newest_ms, total, last_ms = #recent, 0, 0, 0
  if count > 0 then
    newest_ms, total = ms_and_total(recent[1])
    local last_id = recent[count][1]
    last_ms = last_id:sub(1, last_id:find('-', 1, true) - 1) + 0
  end
  local available, longest = math.huge, 0
  for i = 1, #rule - 1, 2 do
    local limit, window = rule[i], rule[i + 1]
    local since = now - window
    local first, oldest
    if last_ms > since then
      first = recent[count]
      if not is_all then
        -- Not an exclusive "(since", which would only exclude since-0.
        local start = ('%d'):format(since + 1)
        -- A refusal needs `wanted` of them at most, to find the entry whose leaving admits that cost.
        local at_most = wanted == 1 and '1' or math.min(wanted, 16)
        if wanted == 1 and rule.blocks then
          at_most = '2'
        end
        oldest = redis.call('XRANGE', key, start, '+', 'COUNT', at_most)
        first = oldest[1]
        if first[2][2] == '0' then
          if not oldest[2] then
            oldest = redis.call('XRANGE', key, start, '+', 'COUNT', '2')
          end
          first = oldest[2]
        end
      elseif first[2][2] == '0' then
        first = recent[count - 1]
      end
    elseif newest_ms > since then
      local younger, older = 1, count
      while older - younger > 1 do
        local middle = math.floor((younger + older) / 2)
        if ms_and_total(recent[middle]) > since then
          younger = middle
        else
          older = middle
        end
      end
      first = recent[younger]
      if first[2][2] == '0' then
        first = recent[younger - 1]
      end
    end
    local left, reset_ms, retry_ms = limit, window, 0
    if first then
      local first_ms, first_total = ms_and_total(first)
      left = limit - (total - first_total + first[2][2])
      if left < 0 then
        left = 0
      end
      reset_ms = first_ms + window - now
    end
    if wanted > limit then
      retry_ms = window -- It will never fit; configuration refuses such a cost.
    elseif left < wanted then
      -- When the running total reached `target`: once that entry has left the window, enough units are free.
      local function ms_of_total(target)
        for n = 1, oldest and #oldest or 0 do
          local ms, reached = ms_and_total(oldest[n])
          if reached >= target then
            return ms
          end
        end
        local low, high = since, nil
        for n = 1, count do
          local ms, reached = ms_and_total(recent[n])
          if reached < target then
            low = ms - 1
            break
          end
          high = ms
        end
        -- Totals grow with time, so halve the span: none up to `low` has reached the target, the last at `high` has.
        while oldest and high - low > 1 do
          local middle = math.floor((low + high) / 2)
          local entry = redis.call('XREVRANGE', key, ('%d'):format(middle), '-', 'COUNT', '1')[1]
          local ms, reached = middle, 0
          if entry then
            ms, reached = ms_and_total(entry)
          end
          if reached >= target then
            high = ms
          else
            low = middle
          end
        end
        return high
      end
      retry_ms = ms_of_total(total + wanted - limit) + window - now
    end
    if window > longest then
      longest = window
    end
    if left < available then
      available = left
    end
    local told = #reply
    reply[told + 1], reply[told + 2], reply[told + 3] = left, reset_ms, retry_ms
  end
  local newest = recent[1]
  local fields = newest and newest[2]
  return available, { longest, total, newest_ms, newest }, count == 0, fields and fields[3], fields and fields[4]
end

local function commit(key, state, amount, now_us, lease_ms, refusals, until_ms)
  local longest, newest_ms, newest = state[1], state[3], state[4]
  local now = (now_us - now_us % 1000) / 1000
  local ms, total = math.ceil(now_us / 1000) + lease_ms, state[2] + amount
  -- IDs never go back: if the clock did, entries stay longer, never shorter.
  if ms < newest_ms then
    ms = newest_ms
  end
  local kept_ms = newest and newest[2][1]
  local is_kept_as_long = newest and kept_ms + 0 == longest
  if not is_kept_as_long then
    kept_ms = ('%d'):format(longest)
  end
  local is_refusal = until_ms
  if is_refusal then
    -- The total stays, so the date must grow.
    if ms == newest_ms then
      ms = ms + 1
    end
  elseif newest and newest[2][4] and newest[2][4] + 0 > now then
    refusals, until_ms = newest[2][3], newest[2][4] + 0
  end
  local id, cost = ('%d-%d'):format(ms, total), amount == 1 and '1' or ('%d'):format(amount)
  if until_ms then
    local ends = ('%d'):format(until_ms)
    redis.call('XADD', key, 'MINID', ('%d'):format(now - longest + 1), id, kept_ms, cost, refusals, ends)
    if is_refusal and newest and newest[2][2] == '0' then
      redis.call('XDEL', key, newest[1])
    end
  elseif newest then
    redis.call('XADD', key, 'MINID', ('%d'):format(now - longest + 1), id, kept_ms, cost)
  else
    redis.call('XADD', key, id, kept_ms, cost)
  end
  local epoch_ms = longest + -2 * longest % 1000
  local epoch_start = ms - ms % epoch_ms
  if not is_kept_as_long or newest_ms < epoch_start or is_refusal then
    local end_ms = math.max(epoch_start + epoch_ms + longest, until_ms or 0)
    redis.call('EXPIRE', key, ('%d'):format(math.ceil((end_ms - now) / 1000)))
  end
end

return { peek = peek, commit = commit }
