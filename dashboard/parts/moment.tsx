import { formatMinute, formatMoment, isToday } from '../words.ts'

/** A moment: of today, only its time. @param ms 0: it is not known */
export function Moment({ ms }: { ms: number }) {
  if (ms === 0) return <>–</>
  return (
    <time class="moment" dateTime={new Date(ms).toISOString()} title={formatMoment(ms)}>
      {isToday(ms) ? new Date(ms).toLocaleTimeString('en-GB') : formatMinute(ms)}
    </time>
  )
}
