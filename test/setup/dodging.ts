import { installFrameworks } from '../system/dodging/frameworks.ts'

/** Once for all files, of which several run at a time. */
export default () => installFrameworks()
