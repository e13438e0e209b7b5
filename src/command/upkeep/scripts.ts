import { createHash } from 'node:crypto'
import { KEY_LOCKING } from '../../store/redis/script.ts'
import { LUA } from './lua.ts'

export interface Script {
  readonly plain: ScriptText
  /** With the line by which Upstash locks the script's keys only. */
  readonly locking: ScriptText
  /** It writes nothing, and the server may be asked to make sure. */
  readonly isReadOnly: boolean
}

export interface ScriptText {
  readonly text: string
  readonly sha1: string
}

/** `expire.lua` */
export const EXPIRE = join('expire', false)

/** `count.lua` */
export const COUNT = join('count', true)

function join(main: 'expire' | 'count', isReadOnly: boolean): Script {
  const text = `return (function(...)\n${LUA[main].lua}\nend)((function()\n${LUA['by-ttl'].lua}\nend)())`
  return { plain: withSha1(text), locking: withSha1(KEY_LOCKING + text), isReadOnly }
}

function withSha1(text: string): ScriptText {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}
