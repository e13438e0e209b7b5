-- How one limit stands after a peek; shared by the algorithms.
--
-- Adds to what a peek gathers ({ available, reply }) the limit's part: units left, ms until more are, ms until `wanted`
-- units are (0: now). The limit is { limit, window, used, reset_ms, freed_after }: `used` may exceed a limit that was
-- lowered; `reset_ms` is the time until the first of the used units is given back; `freed_after(units)` is asked only
-- if needed, and returns the ms until this many are.
return function(state, wanted, limit)
  local left = math.max(limit.limit - limit.used, 0)
  local reset_ms, retry_ms = limit.reset_ms, 0
  if limit.used > limit.limit then
    reset_ms = limit.freed_after(limit.used - limit.limit + 1)
  end
  if wanted > limit.limit then
    retry_ms = limit.window -- It will never fit; configuration refuses such a cost.
  elseif left < wanted then
    retry_ms = limit.freed_after(limit.used + wanted - limit.limit)
  end
  state.available = math.min(state.available, left)
  local reply = state.reply
  reply[#reply + 1] = left
  reply[#reply + 1] = reset_ms
  reply[#reply + 1] = retry_ms
end
