-- What a charge with a penalty makes of a refusal: it remembers how many there were, or until when nothing is admitted.
--
-- KEYS, ARGV and Reply are those of decide.lua. Is told what the charge last remembered, if anything; whether it
-- refuses now; the time in ms; at which places of ARGV its numbers begin and end; for how many ms it refuses, and after
-- how many refusals. Returns the ms until its penalty ends (0: there is none), and what it must remember now, if that
-- changes. A refusal by a penalty is not counted and does not prolong it.
return function(refusals, until_ms, is_refusal, now, from, to, duration_ms, after)
  refusals, until_ms = (refusals or 0) + 0, (until_ms or 0) + 0
  if until_ms > now and refusals == 0 then
    return until_ms - now
  end
  if not is_refusal then
    return 0
  end
  if until_ms <= now then
    refusals = 0
    for window = from + 1, to, 2 do
      until_ms = math.max(until_ms, now + ARGV[window])
    end
  end
  refusals = refusals + 1
  if refusals >= after then
    return duration_ms, 0, now + duration_ms
  end
  return 0, refusals, until_ms
end
