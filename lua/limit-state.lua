-- How one limit stands after a peek; shared by the algorithms.
--
-- Adds to what a peek gathers ({ available, reply }) the limit's part: units left, ms until more are, ms until `wanted`
-- units are (0: now). The limit is { limit, window, used, reset_ms, freed_after }: `used` may exceed a limit that was
-- lowered; `freed_after(units)` is asked only if needed, and returns the ms until this many of the used units are given
-- back.
return function(state, wanted, tier)
  local left = math.max(tier.limit - tier.used, 0)
  local retry_ms = 0
  if wanted > tier.limit then
    retry_ms = tier.window -- It will never fit; configuration refuses such a cost.
  elseif left < wanted then
    retry_ms = tier.freed_after(tier.used + wanted - tier.limit)
  end
  state.available = math.min(state.available, left)
  local reply = state.reply
  reply[#reply + 1] = left
  reply[#reply + 1] = tier.reset_ms
  reply[#reply + 1] = retry_ms
end
