// Made of lua/upkeep/*.lua by `npm run embed-lua`. Do not edit.
export const LUA = {
  "by-ttl": {"lua":"local AT_ONCE=32\nlocal function now_us()\nlocal time=redis.call('TIME')\nreturn time[1]*1000000+time[2]\nend\nlocal function is_document(key)\nif not string.find(key,':rules$') and not string.find(key,':journal$') then\nreturn false\nend\nlocal version=redis.pcall('HGET',key,'version')\nreturn type(version)=='string' and redis.call('HEXISTS',key,version .. ':at')==1\nend\nreturn function(visit)\nlocal started,budget=now_us(),tonumber(ARGV[1])\nlocal bare,kept,gone=0,0,0\nfor i,key in ipairs(KEYS) do\nlocal ttl=redis.call('PTTL',key)\nif ttl==-2 then\ngone=gone+1\nelseif ttl==-1 and not is_document(key) then\nbare=bare+1\nif visit then\nvisit(key)\nend\nelse\nkept=kept+1\nend\nif i % AT_ONCE==0 and now_us() - started>budget then\nbreak\nend\nend\nreturn { bare,kept,gone,math.max(now_us() - started,0) }\nend","takes":[]},
  "count": {"lua":"local by_ttl=...\nreturn by_ttl()","takes":["by-ttl"]},
  "expire": {"lua":"local by_ttl=...\nreturn by_ttl(function(key)\nredis.call('PEXPIRE',key,ARGV[2])\nend)","takes":["by-ttl"]},
} as const
