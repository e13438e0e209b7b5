// Made of lua/upkeep/*.lua by `npm run embed-lua`. Do not edit.
export const LUA = {
  "by-ttl": {"lua":"local AT_ONCE = 32\n\nlocal function now_us()\n  local time = redis.call('TIME')\n  return time[1] * 1000000 + time[2]\nend\n\nreturn function(visit)\n  local started, budget = now_us(), tonumber(ARGV[1])\n  local bare, kept, gone = 0, 0, 0\n  for i, key in ipairs(KEYS) do\n    local ttl = redis.call('PTTL', key)\n    if ttl == -2 then\n      gone = gone + 1\n    elseif ttl == -1 then\n      bare = bare + 1\n      if visit then\n        visit(key)\n      end\n    else\n      kept = kept + 1\n    end\n    if i % AT_ONCE == 0 and now_us() - started > budget then\n      break\n    end\n  end\n  return { bare, kept, gone, math.max(now_us() - started, 0) }\nend","takes":[]},
  "count": {"lua":"local by_ttl = ...\n\nreturn by_ttl()","takes":["by-ttl"]},
  "expire": {"lua":"local by_ttl = ...\n\nreturn by_ttl(function(key)\n  redis.call('PEXPIRE', key, ARGV[2])\nend)","takes":["by-ttl"]},
} as const
