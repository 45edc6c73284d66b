"""Everything that exists only because of a bug or a gap in kafka-python 3.0.12.

Each module holds one fix. Its docstring says what the bug is, how it shows, and when the fix can be removed.

    patches                applies the seven fixes, marked with *, that change classes and loggers of the library itself
    log_rate_limit       * hundreds of warnings per second while a coordinator is down
    connections/
      failed_sockets     * sockets of failed connections stay open
      connection_setup   * a client waits long for a broker that accepts connections and does not answer
      suspect_brokers    * every client finds out for itself that a broker hangs
    transactions/
      transactional_retries * a coordinator that hangs is a fatal error of a producer
      requeueing_client    transactional requests are lost when a broker is down
      transaction_deadline transactional calls without a time-out
      watchdog             ends a process whose client hangs all the same
      disposal             a producer with unsent messages can't be closed at once
    messages/
      header_keys        * a header key that is not UTF-8 stops a consumer
      packed_batches     * a compressed batch is unpacked whatever its size
      empty_messages       a message with neither key nor value is refused
    groups/
      group_join           a join that a poll did not finish is never continued
      paused_records       a resumed partition never delivers records again
      assignor             members without a partition in a group of static and dynamic members
"""
